"""Which names a body assigns is worked out once, however deep bodies nest."""

import ast

from tilekit.frontend import scopes


def test_a_rewritten_body_answers_for_itself():
    (inner,) = ast.parse("def inner():\n    a = 1\n    b = 2").body
    inner.assigned = {"a": True, "b": False}
    assert scopes.assigned_names([*ast.parse("c = a").body, inner]) == {"c": True, "a": True, "b": False}


def test_names_come_in_the_order_of_the_source():
    nodes = ast.parse("if x:\n    b = 1\nelse:\n    a, (c, d) = f(lambda e: e)\nfor g in h: b = 2").body
    assert list(scopes.assigned_names(nodes)) == ["b", "a", "c", "d", "g"]
