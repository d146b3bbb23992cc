"""``tk.ptx``: spellings, what the records say of them, and what is said of wrong ones."""

from __future__ import annotations

import copy
import itertools
import pickle
import random
import re

import pytest

import tilekit as tk
from tilekit.builtins.atom_forms import families, forms
from tilekit.builtins.atoms import atoms
from tilekit.errors import KernelAttributeError, KernelNameError, KernelValueError

ERRORS = {
    "fmx.rn.f32": (
        KernelNameError,
        "no PTX instruction 'fmx' is known; did you mean 'fma' or 'max'? tk.ptx has fma, add,",
    ),
    "FMA.rn.f32": (KernelNameError, "did you mean 'fma'?"),
    "fma.f32": (KernelValueError, "lacks its rounding; write fma.rn.f32, fma.rz.f32, fma.rm.f32 or fma.rp.f32"),
    "fma.relu.bf16": (KernelValueError, "lacks its rounding; write fma.rn.relu.bf16"),
    "fma.rz.f16": (KernelValueError, "rounding .rz is illegal with .f16; legal is .rn"),
    "add.rp.bf16": (KernelValueError, "rounding .rp is illegal with .bf16; legal is .rn"),
    "add.rn.s32": (KernelValueError, "with .s32 there is no rounding; the legal spellings are add.s32, add.sat.s32"),
    "fma.rn.rz.f32": (KernelValueError, "has two roundings, .rn, .rz; write one"),
    "fma.rn.rn.f32": (KernelValueError, "has .rn twice"),
    "fma.rn.sat.f64": (KernelValueError, ".sat is illegal with .f64, which takes no modifier; the legal spellings are"),
    "fma.ftz.f64": (KernelValueError, ".ftz is illegal with .f64"),
    "fma.rn.sat.f32x2": (KernelValueError, ".sat is illegal with .f32x2, which takes .ftz"),
    "fma.rn.ftz.bf16": (KernelValueError, ".ftz is illegal with .bf16, which takes .oob, .relu"),
    "fma.rn.ftz.f32.bf16": (KernelValueError, ".ftz is illegal with .f32.bf16, which takes .sat"),
    "fma.rn.sat.relu.f16": (KernelValueError, ".rn, .sat, .relu do not go together with .f16; the legal spellings are"),
    "fma.rn.foo.f32": (KernelValueError, "fma has no .foo; did you mean .oob? it takes"),
    "fma.rn.f32x": (KernelValueError, "fma has no .f32x; did you mean .f32x2?"),
    "fma": (KernelValueError, "fma lacks its type; the legal spellings are fma.<rn|rz|rm|rp>[.ftz][.sat].f32,"),
    "fma.rn.s32": (KernelValueError, "fma has no type .s32"),
    "fma.rn.f16.f32": (KernelValueError, "fma has no types .f16.f32"),
    "fma.rn.f32x2.f16x2": (KernelValueError, "lacks a type after .f16x2"),
    "mul.u32": (KernelValueError, "lacks a modifier; write mul.lo.u32, mul.hi.u32 or mul.wide.u32"),
    "ld.f32": (KernelValueError, "lacks a modifier; write ld.global.f32"),
    "cvt.f32.f64": (KernelValueError, "lacks its rounding; write cvt.rn.f32.f64, cvt.rz.f32.f64,"),
    "cvt.rz.s32.f32": (KernelValueError, "rounding .rz is illegal with .s32.f32; legal is .rni, .rzi, .rmi or .rpi"),
    "cvt.rn.f64.f32": (KernelValueError, "with .f64.f32 there is no rounding"),
    "cvt.rm.f16x2.f32": (KernelValueError, "rounding .rm is illegal with .f16x2.f32; legal is .rn or .rz"),
    "cvt.rm.relu.f16.f32": (KernelValueError, ".rm, .relu do not go together with .f16.f32"),
    "cvt.sat.s32.s16": (KernelValueError, ".sat is illegal with .s32.s16, which takes no modifier"),
    "cvt.rn.f16": (KernelValueError, "lacks a type after .f16"),
    "div.f32": (KernelValueError, "lacks a modifier; write div.rn.f32, div.rz.f32, div.rm.f32, div.rp.f32, div.approx"),
    "ex2.f32": (KernelValueError, "lacks a modifier; write ex2.approx.f32"),
    "ex2.approx.bf16": (KernelValueError, "lacks a modifier; write ex2.approx.ftz.bf16"),
    "max.xorsign.f32": (KernelValueError, "lacks a modifier; write max.xorsign.abs.f32"),
    "fma.rz.bf16": (KernelValueError, "is refused: ptxas accepts it and computes something else"),
    "fma.rm.relu.bf16x2": (KernelValueError, "is refused: ptxas accepts it and computes something else"),
    "fma.rn.oob.sat.f16": (KernelValueError, "is refused: the PTX ISA has no such form"),
}


@pytest.mark.parametrize("spelling", ERRORS)
def test_wrong_spellings_are_explained(spelling: str) -> None:
    error, message = ERRORS[spelling]
    with pytest.raises(error) as caught:
        tk.ptx[spelling]
    assert message in str(caught.value)


def test_any_order_of_modifiers_is_accepted_and_put_in_order() -> None:
    assert tk.ptx["fma.f32.sat.ftz.rn"] is tk.ptx["fma.rn.ftz.sat.f32"]
    assert tk.ptx["ld.v4.f32.L2::128B.global"].spelling == "ld.global.L2::128B.v4.f32"
    # The order of the types says which operand is which.
    assert tk.ptx["fma.f32.rn.f16"].slots[1].ptx_type == "f16"


def test_attributes_spell_as_well() -> None:
    assert tk.ptx.fma.rn.f32 is tk.ptx["fma.rn.f32"]
    assert tk.ptx.fma.rn.f32.f16 is tk.ptx["fma.rn.f32.f16"]
    assert tk.ptx.ld.global_.L2__128B.f32 is tk.ptx["ld.global.L2::128B.f32"]
    assert repr(tk.ptx.fma.rn) == "tk.ptx.fma.rn (not complete)"
    with pytest.raises(KernelAttributeError, match=r"fma has no \.foo"):
        tk.ptx.fma.foo
    with pytest.raises(KernelAttributeError, match=r"has \.rn twice"):
        tk.ptx.fma.rn.f32.rn


def test_a_sum_without_rounding_is_the_rn_form_and_spelled_so() -> None:
    # Without .rn, ptxas contracts a product and a sum to one fma.
    for mnemonic in ("add", "sub", "mul"):
        for kind in ("f32", "f64", "f32x2", "f16", "f16x2", "bf16", "bf16x2"):
            assert tk.ptx[f"{mnemonic}.{kind}"] is tk.ptx[f"{mnemonic}.rn.{kind}"]
    floats = [atom for atom in atoms() if atom.mnemonic in ("add", "sub", "mul") and atom.types[0][0] in "fb"]
    assert floats
    assert all(atom.rounding for atom in floats)


def test_records_say_what_the_instruction_takes() -> None:
    atom = tk.ptx["fma.rn.f32.bf16"]
    assert [(s.name, s.access, s.ptx_type, s.carriers) for s in atom.slots] == [
        ("d", "w", "f32", (tk.float32,)),
        ("a", "r", "bf16", (tk.bfloat16, tk.uint16)),
        ("b", "r", "bf16", (tk.bfloat16, tk.uint16)),
        ("c", "r", "f32", (tk.float32,)),
    ]
    assert (atom.mnemonic, atom.modifiers, atom.rounding, atom.types) == ("fma", ("rn",), "rn", ("f32", "bf16"))
    assert (atom.min_sm, atom.min_ptx, atom.exact, atom.cpu, atom.adjoint) == ("100", (8, 6), True, "fma", "fma")
    assert tk.ptx["fma.rn.ftz.relu.f16"].flags == {"ftz", "relu"}
    assert (tk.ptx["fma.rn.relu.f16"].min_sm, tk.ptx["fma.rn.f16"].min_sm) == ("80", "53")
    assert tk.ptx["ld.global.b32"].slots[0].carriers == (tk.uint32, tk.int32, tk.float32)
    loads = tk.ptx["ld.global.v4.f32"].slots
    assert [(s.kind, s.lanes) for s in loads] == [("register", 4), ("memory", 4)]
    stores = tk.ptx["st.global.cs.v2.f64"].slots
    assert [(s.kind, s.access) for s in stores] == [("memory", "w"), ("register", "r")]
    assert tk.ptx["fma.rn.f16x2"].adjoint is None


def test_one_spelling_may_have_several_operand_lists() -> None:
    atom = tk.ptx["mov.b32"]
    assert [a.operands for a in (atom, *atom.variants)] == [
        "d: b32, a: b32",
        "d: b32, a: b16 x 2",
        "d: b16 x 2, a: b32",
    ]


def test_what_the_isa_does_not_fix_is_not_exact() -> None:
    inexact = {atom.mnemonic for atom in atoms() if not atom.exact}
    assert inexact == {"div", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "tanh", "sin", "cos"}
    assert {atom.mnemonic for atom in atoms() if atom.exact} - inexact >= {"fma", "add", "min", "cvt"}
    assert all(atom.exact == (not atom.error) == {"approx", "full"}.isdisjoint(atom.modifiers) for atom in atoms())
    assert (tk.ptx["div.rn.f32"].exact, tk.ptx["div.full.f32"].exact, tk.ptx["rcp.approx.ftz.f64"].exact) == (
        True,
        False,
        False,
    )


def test_three_numbers_may_have_a_minimum() -> None:
    assert [(a.operands, a.min_sm) for a in (tk.ptx["min.f32"], *tk.ptx["min.f32"].variants)] == [
        ("d: f32, a: f32, b: f32", "20"),
        ("d: f32, a: f32, b: f32, c: f32", "100"),
    ]
    assert len(tk.ptx["min.abs.f32"].slots) == 4


def test_gradients_flow_between_floats_only() -> None:
    assert tk.ptx["cvt.rn.f16.f32"].adjoint == "cvt"
    for spelling in ("cvt.rni.s32.f32", "cvt.rn.f32.s32", "add.s32", "fma.rn.f32x2", "mov.b32", "ld.global.f32"):
        assert tk.ptx[spelling].adjoint is None


def test_an_architecture_that_lacks_an_atom_is_named() -> None:
    with pytest.raises(KernelValueError, match=r"fma\.rn\.f32x2 needs sm_100 \(PTX 8\.6\); target is sm_90a"):
        tk.ptx["fma.rn.f32x2"].check_arch("90a")
    tk.ptx["fma.rn.f32x2"].check_arch(120)
    own = tk.ptx["fma.rn.f32x2.f16x2.f32x2.f32x2"]
    assert [own.runs_on(arch) for arch in ("107a", "107f", "107", "110a", "90")] == [True, True, False, False, False]


def test_atoms_are_values() -> None:
    atom = tk.ptx["mov.b32"]
    assert pickle.loads(pickle.dumps(atom)) == atom == copy.deepcopy(atom)
    assert hash(pickle.loads(pickle.dumps(atom))) == hash(atom)
    assert repr(atom) == 'tk.ptx["mov.b32"]'


def test_spellings_find_their_own_atom_and_no_other() -> None:
    found = atoms()
    assert len({atom.spelling for atom in found}) == len(found)
    assert all(tk.ptx[atom.spelling] is atom for atom in found)


def test_refused_spellings_are_no_atoms_and_name_one() -> None:
    refused = [form for form in forms() if form.refused]
    assert refused
    for form in refused:
        tk.ptx[form.rule["instead"]]
        for types, modifiers in itertools.product(form.every_types(), form.every_modifiers()):
            with pytest.raises(KernelValueError, match="is refused"):
                tk.ptx[".".join((form.mnemonic, *modifiers, *types))]


def test_every_family_says_what_it_computes() -> None:
    assert {atom.family for atom in atoms()} == set(families())
    assert all(families().values())


def test_whatever_is_spelled_is_an_atom_or_explained() -> None:
    rng = random.Random(5)
    tokens = {
        f.mnemonic: [t for g in forms(f.mnemonic) for p in (*g.modifiers, *g.types) for t in p.tokens] for f in forms()
    }
    found = 0
    for _ in range(4000):
        mnemonic = rng.choice(sorted(tokens))
        given = [rng.choice(tokens[mnemonic]) for _ in range(rng.randint(0, 4))]
        spelling = ".".join((mnemonic, *given))
        try:
            atom = tk.ptx[spelling]
        except KernelValueError as error:
            assert str(error).startswith(spelling)
            assert re.search(r"; |twice|has two|is refused", str(error)), error
        else:
            found += 1
            assert set(given) <= set(atom.spelling.split("."))
    assert found > 50
