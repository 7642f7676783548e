"""Rows that are read block by block are those of the array, wherever it lies."""

import mmap

import numpy as np
import pytest

from lpplusplus._core import backend, rows
from lpplusplus._core.rows import Rows

N, D = 300, 7
TENSOR = pytest.param("tensor", marks=pytest.mark.with_torch)


@pytest.fixture(params=["array", "half precision", "file", "slice of a file", TENSOR])
def source(request, tmp_path):
    X = np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)
    if request.param == "array":
        return X, X
    if request.param == "tensor":
        return request.getfixturevalue("torch").tensor(X), X
    if request.param == "half precision":
        return X.astype(np.float16), X.astype(np.float16).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    return (mapped, X) if request.param == "file" else (mapped[50:], X[50:])


def test_every_way_to_read(source):
    given, X = source
    for unit in (False, True):
        F = rows.unit_rows(Rows(given)) if unit else Rows(given)
        wanted = backend.unit_rows(X) if unit else X
        index = backend.like(np.flatnonzero(np.arange(len(X)) % 3), given)
        part, chosen = F.take(index), wanted[np.arange(len(X)) % 3 > 0]
        factors = backend.like(np.linspace(1, 2, len(chosen), dtype=np.float32), given)
        room = backend.empty(F, (40, D))
        for rows_, array in ((F, wanted), (part, chosen), (part.times(factors), chosen * np.asarray(factors)[:, None])):
            assert rows_.shape == array.shape
            for key in (slice(3, 40), slice(None, None, 20), backend.like(np.array([5, 2, 2, 4]), given)):
                same = key if isinstance(key, slice) else backend.to_numpy(key)
                np.testing.assert_allclose(backend.to_numpy(rows_[key, :]), array[same], rtol=1e-6)
            np.testing.assert_allclose(backend.to_numpy(rows_.read(slice(3, 40), room)), array[3:40], rtol=1e-6)
        assert np.allclose(backend.to_numpy(rows.some_rows(part, index[:9])[:, :]), chosen[backend.to_numpy(index[:9])])


def test_unit_rows_are_left_alone():
    X = backend.unit_rows(np.random.default_rng(0).standard_normal((N, D)))
    F = Rows(X)
    assert F.unit() is F
    assert np.shares_memory(F[3:9, :], X)


def test_sums_are_those_of_the_whole(monkeypatch):
    monkeypatch.setattr(rows, "BLOCK", 1)
    X, y = np.random.default_rng(0).standard_normal((600, D)), np.arange(600) % 5
    assert len(list(Rows(X).blocks())) == 3
    assert np.allclose(rows.sum_by_class(Rows(X), y, 5), backend.sum_by_class(X, y, 5))


def test_pages_are_let_go_and_what_is_in_no_file_stays(tmp_path):
    """A map of mode "c" keeps what was written to it in its pages only."""
    X = np.random.default_rng(0).standard_normal((4 * mmap.PAGESIZE, 8)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    for mode in ("r", "r+", "c"):
        mapped = np.load(tmp_path / "X.npy", mmap_mode=mode)
        assert (rows.mapping_of(mapped) is None) == (mode == "c")
        assert (rows.mapping_of(np.asarray(mapped[10:])) is None) == (mode == "c")
        if mode != "r":
            mapped[7] = 3.0
        F = Rows(mapped)
        first = [F[a : a + 1000, :].copy() for a in range(0, len(X), 1000)]
        again = [F[a : a + 1000, :] for a in range(0, len(X), 1000)]
        assert np.array_equal(np.concatenate(first), np.concatenate(again))
        assert (first[0][7] == 3.0).all() == (mode != "r")
        del F, mapped
    assert rows.mapping_of(np.asfortranarray(X)) is None


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("kind", ["numpy", TENSOR])
def test_triangle_and_inverse(n, kind, request):
    A = np.random.default_rng(0).standard_normal((n, n))
    A = A @ A.T + np.eye(n)
    if kind == "tensor":
        A = request.getfixturevalue("torch").tensor(A)
    triangle, inverse = map(backend.to_numpy, backend.triangle_and_inverse(A))
    assert np.allclose(triangle, np.linalg.cholesky(A))
    assert np.allclose(inverse @ triangle, np.eye(n))
