"""The objective on the weights when other processes hold the images, each a part of them.

Each process gets the weights, (D, K) numbers, and sends back the sums over its images: the gradient of W, just as
large, and a few numbers per class. No image travels. The processes keep nothing but images between two evaluations, so
one that is lost and started again only has to read its images again.
"""

from ..._core import backend
from ..._core.backend import Array
from ..._core.rows import Rows
from ..._core.threads import team
from .point import Point
from .primal import Pass, PrimalObjective, Share
from .support import Support


class ScatteredObjective(PrimalObjective):
    """L in the coordinates of the weights; its images are `ScatteredRows`."""

    def _make_room(self) -> None:
        pass

    def _prepare(self, point: Point, *, w: bool, alpha: bool, kappa: bool) -> Pass:
        # The gradient of α always comes from that of W: no products with the text are kept.
        return super()._prepare(point, w=w or alpha, alpha=alpha, kappa=kappa)

    def over_images(self, asked: Pass) -> tuple[list[Share], Array | None]:
        support, shares, gradient = self.support, [], None
        for share, part in support.F.each(_images_there, support.y, support.roots, k=support.n_classes, asked=asked):
            shares.append(share)
            if gradient is None:
                gradient = None if part is None else backend.copy(part)
            else:
                gradient += part
        return shares, gradient


def _images_there(F: Rows, y: Array, roots: Array | None, k: int, asked: Pass) -> tuple[Share, Array | None]:
    """A pass over the images of one process, on all threads that it has."""
    support = Support(F, y, k, None, roots)
    with team(F, 4.0 * support.size * support.dim * k) as workers:
        shares, gradient = PrimalObjective(support, team=workers, freeze=False).over_images(asked)
    loss, intercept, kappa, _, sizes = zip(*shares, strict=True)
    return Share(sum(loss), sum(intercept), sum(kappa), 0.0, max(sizes)), gradient
