// Polynomials of the elementary functions: near-minimax (Chebyshev) fits computed with 400-bit arithmetic and rounded
// to the type. Each states its function, interval and largest absolute error; all are evaluated by Horner's rule with
// FMA, so their bits are the same everywhere.
#ifndef TILEKIT_NATIVE_MATH_POLY_H
#define TILEKIT_NATIVE_MATH_POLY_H
#include "fma.h"

namespace tk {

// c0 + x * (c1 + x * (c2 + ...)).
template <class T> TK_FN T horner(T, T c) { return c; }
template <class T, class... C> TK_FN T horner(T x, T c, C... rest) { return fma_ieee(horner(x, rest...), x, c); }

// (exp(x) - 1 - x) / x^2 on [-0.3467, 0.3467]; error 1.2e-16.
TK_FN f64 poly_exp(f64 x)
{
    return horner(x, 0x1.0000000000001p-1, 0x1.5555555555556p-3, 0x1.5555555553d4fp-5, 0x1.11111111109adp-7,
                  0x1.6c16c17893833p-10, 0x1.a01a01a7c8d47p-13, 0x1.a019b8ef67c6cp-16, 0x1.71de0d9c145dp-19,
                  0x1.2891a8c1d838dp-22, 0x1.af38d53857513p-26);
}

// (exp(x) - 1 - x) / x^2 on [-0.3467, 0.3467]; error 6.7e-8.
TK_FN f32 poly_expf(f32 x)
{
    return horner(x, 0x1p-1f, 0x1.5554dcp-3f, 0x1.55551ap-5f, 0x1.120ba2p-7f, 0x1.6d113cp-10f);
}

// (2^x - 1) / x on [-0.5001, 0.5001]; error 3.3e-9.
TK_FN f32 poly_exp2f(f32 x)
{
    return horner(x, 0x1.62e43p-1f, 0x1.ebfbep-3f, 0x1.c6b08ep-5f, 0x1.3b2a1cp-7f, 0x1.5d879ep-10f, 0x1.44402p-13f,
                  0x1.00a594p-16f);
}

// (log((1 + s) / (1 - s)) - 2 s) / s^3, x = s^2 on [0.0, 0.02947]; error 3.7e-17.
TK_FN f64 poly_log(f64 x)
{
    return horner(x, 0x1.5555555555555p-1, 0x1.9999999999a39p-2, 0x1.2492492476a1ap-2, 0x1.c71c7201a55d7p-3,
                  0x1.745cf8e4bba1bp-3, 0x1.3b1c3c1c81c8fp-3, 0x1.0fbde0f4ad17bp-3, 0x1.0c0aff044a97p-3);
}

// (log((1 + s) / (1 - s)) - 2 s) / s^3, x = s^2 on [0.0, 0.02947]; error 2.2e-8.
TK_FN f32 poly_logf(f32 x)
{
    return horner(x, 0x1.555556p-1f, 0x1.9999ecp-2f, 0x1.245c28p-2f, 0x1.ddd4dap-3f);
}

// (log((1 + s) / (1 - s)) - 2 s - 2 s^3 / 3) / s^5, x = s^2 on [0.0, 0.02947]; error 2.6e-17.
TK_FN f64 poly_log5(f64 x)
{
    return horner(x, 0x1.999999999999ap-2, 0x1.2492492492522p-2, 0x1.c71c71c6ea5acp-3, 0x1.745d177ad436ap-3,
                  0x1.3b1395b82701ep-3, 0x1.1118cd67251c5p-3, 0x1.df7ba1f4809c3p-4, 0x1.e03a7acf07f85p-4);
}

// (sin(r) - r) / r^3, x = r^2 on [0.0, 0.6181]; error 9.3e-18.
TK_FN f64 poly_sin(f64 x)
{
    return horner(x, -0x1.5555555555555p-3, 0x1.111111111111p-7, -0x1.a01a01a019926p-13, 0x1.71de3a545e7p-19,
                  -0x1.ae64540f0ba18p-26, 0x1.61217c1864fa1p-33, -0x1.ab161757f0c63p-41);
}

// (cos(r) - 1 + r^2 / 2) / r^4, x = r^2 on [0.0, 0.6181]; error 2.3e-18.
TK_FN f64 poly_cos(f64 x)
{
    return horner(x, 0x1.5555555555555p-5, -0x1.6c16c16c16c16p-10, 0x1.a01a01a019d02p-16, -0x1.27e4fb7711e1dp-22,
                  0x1.1eed8de9ef73ep-29, -0x1.9394b76d1f265p-37, 0x1.ab76cf6e9b365p-45);
}

// (sin(r) - r) / r^3, x = r^2, enough for f32 on [0.0, 0.6181]; error 2.8e-11.
TK_FN f64 poly_sin_short(f64 x)
{
    return horner(x, -0x1.555555545c0f8p-3, 0x1.11110dea5e8cp-7, -0x1.a013a11619d1bp-13, 0x1.6dbbee1f24647p-19);
}

// (cos(r) - 1 + r^2 / 2) / r^4, x = r^2, enough for f32 on [0.0, 0.6181]; error 2.4e-12.
TK_FN f64 poly_cos_short(f64 x)
{
    return horner(x, 0x1.555555550225fp-5, -0x1.6c16bf51b0df9p-10, 0x1.a015c02820885p-16, -0x1.2522e6d930e5bp-22);
}

// (atan(t) - t) / t^3, x = t^2 on [0.0, 0.1916]; error 1.9e-17.
TK_FN f64 poly_atan(f64 x)
{
    return horner(x, -0x1.5555555555555p-2, 0x1.99999999998c3p-3, -0x1.249249248532p-3, 0x1.c71c71bd16f05p-4,
                  -0x1.745d1548eea0bp-4, 0x1.3b13757177a9ep-4, -0x1.110c971163314p-4, 0x1.e17007d034c5dp-5,
                  -0x1.ab569af6606b8p-5, 0x1.6ff4d8c8faf06p-5, -0x1.0f4592322c26bp-5, 0x1.e3a2a8148facdp-7);
}

// (asin(t) - t) / t^3, x = t^2 on [0.0, 0.2501]; error 2.3e-17.
TK_FN f64 poly_asin(f64 x)
{
    return horner(x, 0x1.5555555555556p-3, 0x1.3333333332ec4p-4, 0x1.6db6db6e3292ep-5, 0x1.f1c71c1d4aa0dp-6,
                  0x1.6e8bb1d89492bp-6, 0x1.1c4d343fa57f6p-6, 0x1.c9cf3759fd8ffp-7, 0x1.78246f32d075cp-7,
                  0x1.524ea8b3aad31p-7, 0x1.653a8f8cfd43cp-8, 0x1.1d661531b222ep-6, -0x1.e7a24f548c99fp-7,
                  0x1.d78189767524ep-6);
}

// (tanh(t) - t) / t^3, x = t^2 on [0.0, 0.391]; error 1.5e-8.
TK_FN f32 poly_tanhf(f32 x)
{
    return horner(x, -0x1.555556p-2f, 0x1.1110e8p-3f, -0x1.ba08b4p-5f, 0x1.64a868p-6f, -0x1.116328p-7f,
                  0x1.2c645ep-9f);
}

// erf(t) / t - 1, x = t^2 on [0.0, 0.5626]; error 2.5e-17.
TK_FN f64 poly_erf(f64 x)
{
    return horner(x, 0x1.06eba8214db69p-3, -0x1.812746b0379ep-2, 0x1.ce2f21a0424cp-4, -0x1.b82ce312572fap-6,
                  0x1.565bcd0362164p-8, -0x1.c02db1214bed9p-11, 0x1.f9a2af89af017p-14, -0x1.f4c5dc976c85cp-17,
                  0x1.b90eb1bb738ebp-20, -0x1.564eaf2b300b8p-23, 0x1.8a2ca05725a4dp-27);
}

// erf(t) / t - 1, x = t^2 on [0.0, 0.86]; error 1.0e-8.
TK_FN f32 poly_erff(f32 x)
{
    return horner(x, 0x1.06eba8p-3f, -0x1.812744p-2f, 0x1.ce2e1cp-4f, -0x1.b8100ep-6f, 0x1.54d5c4p-8f,
                  -0x1.aab506p-11f, 0x1.5e4ddp-14f);
}

// log(erfc(x)) on [0.92, 4.0]; error 1.3e-7.
TK_FN f32 poly_log_erfcf(f32 x)
{
    return horner(x, 0x1.5001dep-12f, -0x1.21574p0f, -0x1.437d32p-1f, -0x1.c2f26ep-4f, 0x1.b10bbap-6f,
                  -0x1.382f88p-8f, 0x1.3963c6p-11f, -0x1.835e5p-15f, 0x1.b9314p-20f);
}

// exp(y^2) erfc(y) (1 + 2 y), x = (y - 4) / (y + 4), y in [0.74, 28] on [-0.69, 0.751]; error 5.3e-17.
TK_FN f64 poly_erfcx(f64 x)
{
    return horner(x, 0x1.3ba5916e9fd7fp0, -0x1.1df1ad154a28ep-3, 0x1.f7f5df66fd7e2p-7, 0x1.16ecefcfa5373p-4,
                  -0x1.9ddb23c3e9283p-4, 0x1.7fee004e12c83p-4, -0x1.0fb06dfe45b36p-4, 0x1.3079edf66c3f8p-5,
                  -0x1.096238860b441p-6, 0x1.49c6728fd3744p-8, -0x1.8d4a98aceb21p-11, -0x1.a1df2f9499d3dp-13,
                  0x1.3be01e5775459p-13, -0x1.99578e72c3119p-16, -0x1.787ce3723e5edp-17, 0x1.7f1091a26b38ap-18,
                  0x1.370f60de775fdp-22, -0x1.b9567bbbda277p-21, 0x1.59834efe2646cp-24, 0x1.c528fa4e36f71p-24,
                  -0x1.844797a62893ep-26, -0x1.690a5d67d9257p-27, 0x1.dec42135d7b3dp-29);
}

// (log(1 + x) - x) / x^2 on [-1/3, 1/3]; error relative to log(1 + x) 2.7e-8.
TK_FN f32 poly_log1pf(f32 x)
{
    return horner(x, -0x1.ffffd6p-2f, 0x1.5554fcp-2f, -0x1.00145p-2f, 0x1.99d3a6p-3f, -0x1.503884p-3f, 0x1.1ea97ap-3f,
                  -0x1.3b0e5cp-3f, 0x1.1f233cp-3f);
}

// (tanh(t) - t) / t^3, x = t^2 on [0.0, 0.3052]; error relative to tanh(t) 4e-8.
TK_FN f32 poly_tanhf_near(f32 x)
{
    return horner(x, -0x1.55545p-2f, 0x1.10ce64p-3f, -0x1.af696ap-5f, 0x1.0cf816p-6f);
}

// erf(t) / t - 1, x = t^2 on [0.0, 0.8464]; error 1.6e-8.
TK_FN f32 poly_erff_near(f32 x)
{
    return horner(x, 0x1.06eba6p-3f, -0x1.8126ecp-2f, 0x1.ce1b7cp-4f, -0x1.b69a2ep-6f, 0x1.478f48p-8f,
                  -0x1.3b5fc4p-11f);
}

// log2(erfc(x)) on [0.92, 4.0]; error times erfc(x) 3.4e-8. Beyond, below -23 and falling to minus infinity.
TK_FN f32 poly_log2_erfcf(f32 x)
{
    return horner(x, -0x1.7e23fep-9f, -0x1.9d880ep+0f, -0x1.e13638p-1f, -0x1.0bc4ccp-3f, 0x1.6c7804p-6f,
                  -0x1.d18c5p-10f);
}

}  // namespace tk
#endif
