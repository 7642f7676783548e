"""Places on the map, against numpy's SVD and against what UMAP itself says."""

import numpy as np
import pytest

from lpplusplus.images.errors import SourceError
from lpplusplus.images.projection import has_umap, pca, umap


@pytest.mark.parametrize("shape", [(7, 20), (40, 5), (3, 3)])
def test_principal_components_are_those_of_the_svd(shape):
    """Whichever way round the square is; a sign is chosen, so that the map does not flip."""
    rows = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    F = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    F = F - F.mean(axis=0)
    u, s, _ = np.linalg.svd(F.astype(np.float64), full_matrices=False)
    found = pca(rows)
    np.testing.assert_allclose(np.abs(found), np.abs(u[:, :2] * s[:2]), atol=1e-5)
    np.testing.assert_allclose(pca(rows[::-1])[::-1], found, atol=1e-5)


def test_equal_images_are_one_place():
    assert np.ptp(pca(np.ones((4, 6), np.float32))) < 1e-6


@pytest.mark.skipif(not has_umap(), reason="umap-learn is not installed: pip install umap-learn")
def test_umap_needs_neighbours():
    with pytest.raises(SourceError, match="16 images or more, and there are 5"):
        umap(np.ones((5, 3)))


@pytest.mark.skipif(has_umap(), reason="umap-learn is installed")
def test_without_umap_it_is_said_what_to_install():
    with pytest.raises(ImportError, match="pip install umap-learn"):
        umap(np.ones((20, 3)))
