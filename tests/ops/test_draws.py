"""Draws are functions of key, site and index, spread evenly."""

import numpy as np
import torch

from cgipool.ops.draws import key_of, mix, shuffled, uniform


def test_mix_is_one_to_one_and_the_same_for_ints_and_tensors():
    numbers = torch.arange(2**16) * 65521
    mixed = mix(numbers % 2**32)
    assert len(mixed.unique()) == len(numbers)
    assert mixed[:50].tolist() == [mix(int(n) % 2**32) for n in numbers[:50]]


def test_uniform_numbers_are_uniform_and_do_not_repeat_over_sites_and_keys():
    index = torch.arange(100_000)
    draws = [uniform(torch.tensor(key), site, index) for key in (1, 2) for site in (0, 1)]
    for a in draws:
        assert float(a.min()) >= 0.0
        assert float(a.max()) < 1.0
        counts = np.histogram(a.numpy(), bins=100, range=(0, 1))[0]
        assert ((counts - 1000) ** 2 / 1000).sum() < 160  # chi-squared with 99 degrees: beyond 160 once in 10^4
    correlation = np.corrcoef(np.stack([a.numpy() for a in draws]))
    assert np.abs(correlation - np.eye(4)).max() < 0.02


def test_keys_depend_on_every_part_and_on_their_order():
    keys = [key_of(*parts) for parts in [(0, 1), (1, 0), (0,), (0, 0), (0, 1, 0), (2**40, 1), (2**41, 1)]]
    assert len(set(keys)) == len(keys)


def test_shuffled_is_a_permutation_that_depends_on_its_key():
    first, second = shuffled(1, 1000), shuffled(2, 1000)
    assert sorted(first.tolist()) == list(range(1000))
    assert not torch.equal(first, second)
    assert torch.equal(first, shuffled(1, 1000))
    assert abs(np.corrcoef(first.numpy(), np.arange(1000))[0, 1]) < 0.1
