"""What a kernel reads from outside on ways that its text does not show: it counts as much as a name does."""

import operator
import types
import warnings

import numpy as np
import pytest

import tilekit as tk
from tests.frontend import outside
from tests.frontend.outside import Made, Pair, Settings, made_by

settings = Settings()
holder = types.SimpleNamespace(module=outside, functions=(outside.gain,), by_name={"gain": outside.gain})
static_holder = Settings()


def by_method(s):
    return s.scale()


def by_method_of_method(s):
    return s.through_self()


def by_property(s):
    return s.level


def by_dynamic_attribute(s):
    return s.dynamic


def by_item(s):
    return s[0]


def by_operator(s):
    return s + 0.0


def by_getattr(s):
    return getattr(s, "level")  # noqa: B009


def by_attrgetter(s):
    return operator.attrgetter("level")(s)


def by_static(s):
    return tk.static(s.scale())


def by_compile_time_function(s):
    return outside.guarded(s)


def of_module(m):
    return m.GAIN


def of_module_by_getattr(m):
    return getattr(m, "GAIN")  # noqa: B009


def call_of_module(m):
    return m.gain()


def compile_time_call_of_module(m):
    return m.guarded_gain()


def of_module_in_compile_time_function(m):
    return outside.guarded(m)


def of_module_in_static(m):
    return tk.static(m.GAIN)


def of_module_inside(h):
    return h.module.GAIN


def called_from_a_tuple(h):
    return h.functions[0]()


def called_from_a_dict(h):
    return h.by_name["gain"]()


def called_in_a_loop(h):
    total = 0.0
    for function in h.functions:
        total += function()
    return total


def of_an_object_made_here(h):
    return Made(1.0).by(1.0)


def of_a_function_made_here(h):
    return made_by(1.0)(1.0)


def of_a_function_that_imports(m):
    return m.imported_gain()


def of_a_function_that_imports_the_name(m):
    return m.imported_name()


def of_a_function_that_imports_the_module(m):
    return m.imported_module()


def of_a_word(m):
    return m.Word("loud").gain


def of_a_given_word(w):
    return w.gain


WAYS = [
    *((way, settings) for way in (
        by_method, by_method_of_method, by_property, by_dynamic_attribute, by_item, by_operator, by_getattr,
        by_attrgetter, by_static, by_compile_time_function,
    )),
    *((way, outside) for way in (
        of_module, of_module_by_getattr, call_of_module, compile_time_call_of_module,
        of_module_in_compile_time_function, of_module_in_static, of_a_function_that_imports,
        of_a_function_that_imports_the_name, of_a_function_that_imports_the_module, of_a_word,
    )),
    *((way, holder) for way in (
        of_module_inside, called_from_a_tuple, called_from_a_dict, called_in_a_loop, of_an_object_made_here,
        of_a_function_made_here,
    )),
    (of_a_given_word, outside.Word("loud")),
]  # fmt: skip


def kernel_of(way, thing):
    @tk.kernel
    def reads(out: tk.array1d[float]):
        out[0] = way(thing)

    return reads


def run(kernel, device="cpu"):
    out = np.zeros(1, np.float32)
    tk.launch_tiled(kernel, dim=1, outputs=[out], block_dim=32, device=device)
    return out[0]


@pytest.mark.parametrize("device", ["cpu", "interpret"])
@pytest.mark.parametrize("way, thing", WAYS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_global_of_another_module_counts_on_every_way_to_it(way, thing, device, monkeypatch):
    kernel = kernel_of(way, thing)
    assert run(kernel, device) == 2.0
    monkeypatch.setattr(outside, "GAIN", 5.0)
    assert run(kernel, device) == 5.0
    compiled = len(kernel.cache)
    monkeypatch.setattr(outside, "GAIN", 2.0)
    assert run(kernel, device) == 2.0
    assert len(kernel.cache) == compiled


@pytest.mark.parametrize("way, thing", WAYS, ids=lambda value: getattr(value, "__name__", ""))
def test_nothing_is_traced_again_while_nothing_changes(way, thing, monkeypatch):
    kernel = kernel_of(way, thing)
    run(kernel)
    monkeypatch.setattr(kernel, "trace", None)
    for _ in range(3):
        assert run(kernel) == 2.0


def test_what_no_launch_has_read_does_not_count(monkeypatch):
    kernel = kernel_of(of_module, outside)
    run(kernel)
    monkeypatch.setattr(outside, "OTHER", 5.0)
    monkeypatch.setattr(kernel, "trace", None)
    assert run(kernel) == 2.0


def test_a_method_put_in_the_place_of_another_counts(monkeypatch):
    kernel = kernel_of(by_method, settings)
    assert run(kernel) == 2.0
    monkeypatch.setattr(Settings, "scale", lambda self: 7.0)
    assert run(kernel) == 7.0
    monkeypatch.setattr(settings, "scale", lambda: 8.0, raising=False)
    assert run(kernel) == 8.0


def callback_of(s):
    return s.callback()


def test_a_bound_method_kept_in_an_attribute_counts_with_its_object(monkeypatch):
    kernel = kernel_of(callback_of, settings)
    monkeypatch.setattr(settings, "callback", Settings(3.0).through_self)
    assert run(kernel) == 6.0
    monkeypatch.setattr(settings, "callback", Settings(4.0).through_self)
    assert run(kernel) == 8.0


def second_weight(s):
    return s.weights[1]


def weights_sum(s):
    return float(s.weights.sum())


@pytest.mark.parametrize(("way", "after"), [(second_weight, 9.0), (weights_sum, 10.0)])
def test_elements_of_an_array_inside_an_object_count(way, after):
    owner = Settings()
    kernel = kernel_of(way, owner)
    run(kernel)
    owner.weights[1] = 9.0
    assert run(kernel) == after


def tables_of_a_compile_time_function(nothing):
    return outside.levels()


def test_lists_and_arrays_that_compile_time_python_reads_count(monkeypatch):
    monkeypatch.setattr(outside, "LEVELS", [1.0, 2.0])
    kernel = kernel_of(tables_of_a_compile_time_function, None)
    assert run(kernel) == 6.0
    outside.LEVELS[0] = 4.0
    assert run(kernel) == 9.0
    monkeypatch.setattr(outside, "WEIGHTS", np.array([3.0], np.float32))
    assert run(kernel) == 9.0
    outside.WEIGHTS[0] = 4.0
    assert run(kernel) == 10.0


def table_of(m):
    total = 0.0
    for value in m.TABLE:
        total += value
    return total


def test_a_list_of_a_module_is_refused_as_if_it_were_named():
    kernel = kernel_of(table_of, outside)
    for _ in range(2):
        with pytest.raises(TypeError) as caught:
            run(kernel)
        assert caught.value.message == (
            "m.TABLE is a captured list; put constants into a tuple, "
            "or pass an array of numbers to the kernel as an argument"
        )
        assert caught.value.location.line == table_of.__code__.co_firstlineno + 2


def test_objects_that_a_kernel_makes_are_no_captures(monkeypatch):
    @tk.kernel
    def pairs(out: tk.array1d[float]):
        pair = Pair(out[1], 2.0)
        out[0] = pair.first + pair.second

    out = np.array([0.0, 3.0], np.float32)
    for _ in range(2):
        tk.launch_tiled(pairs, dim=1, outputs=[out], block_dim=32)
        assert out[0] == 5.0
        monkeypatch.setattr(pairs, "trace", None)


def test_one_warning_names_what_changes_often(monkeypatch):
    kernel = kernel_of(of_module, outside)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(10):
            monkeypatch.setattr(outside, "GAIN", float(number))
            assert run(kernel) == number
    (warning,) = caught
    assert "kernel 'reads' was specialised for 8 values of m.GAIN, which it captures" in str(warning.message)
    assert (warning.filename, warning.lineno) == (__file__, of_module.__code__.co_firstlineno + 1)


def test_a_read_that_changes_while_a_kernel_is_traced_is_read_again(monkeypatch):
    kernel = kernel_of(of_module, outside)
    trace = kernel.trace

    def meddling(*args):
        found = trace(*args)
        outside.GAIN = 5.0
        return found

    monkeypatch.setattr(outside, "GAIN", 2.0)
    monkeypatch.setattr(kernel, "trace", meddling)
    assert run(kernel) == 2.0
    assert run(kernel) == 5.0


def cached(m):
    return m.cached_gain(0)


def test_what_a_cached_function_reads_counts_once_its_cache_is_cleared(monkeypatch):
    kernel = kernel_of(cached, outside)
    assert run(kernel) == 2.0
    monkeypatch.setattr(outside, "GAIN", 5.0)
    outside.cached_gain.cache_clear()
    assert run(kernel) == 5.0


def computed_table(s):
    table = np.linspace(0.0, float(s.weights[1]), 3).reshape(3, 1).repeat(2, axis=1)
    return table.tolist()[2][0]


def test_tables_that_a_kernel_computes_are_no_captures(monkeypatch):
    owner = Settings()
    kernel = kernel_of(computed_table, owner)
    assert run(kernel) == 2.0
    (forms,) = kernel.cache.values()
    ((guards, _),) = forms.forms
    assert [str(guarded) for guarded, _ in guards.found] == ["s.weights[1]"]
    owner.weights[1] = 9.0
    assert run(kernel) == 9.0
