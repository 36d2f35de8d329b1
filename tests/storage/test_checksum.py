"""Checksums against values known from elsewhere, and objects that carry their own."""

import hashlib
import json

from mrafno.storage.checksum import json_sha256, seal, seal_is_valid, sha256


def test_sha256_of_the_standards_example():
    assert sha256(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_json_values_have_a_checksum_that_ignores_order_and_spaces():
    assert json_sha256({"b": [1, 2.5], "a": None}) == sha256(b'{"a": null, "b": [1, 2.5]}')
    assert json_sha256({"a": None, "b": [1, 2.5]}) == json_sha256({"b": [1, 2.5], "a": None})
    assert json_sha256({"a": 1}) != json_sha256({"a": 1.5})


def test_a_sealed_object_is_json_with_one_more_member():
    text = b'{"a": 1, "check": "'
    assert seal(b'{"a": 1}', "check") == text + hashlib.sha256(text).hexdigest()[:16].encode() + b'"}'
    values = json.loads(seal(b'{"a":1}', "sum", separators=(",", ":")))
    assert values == {"a": 1, "sum": hashlib.sha256(b'{"a":1,"sum":"').hexdigest()[:16]}


def test_every_changed_byte_breaks_the_seal():
    content = seal(b'{"a": 1}', "check")
    assert seal_is_valid(content)
    for i in range(len(content)):
        assert not seal_is_valid(content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :])
        assert not seal_is_valid(content[:i])
    assert not seal_is_valid(content + b" ")
