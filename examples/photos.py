"""A folder of photos in, a classifier out: python examples/photos.py [TRAIN TEST [ENCODER]]

TRAIN and TEST have one folder per class; ENCODER is "embedded" unless named, such as clip. Without photos the program
draws its own images. Neither needs a download.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from lpplusplus.images import ImageClassifier
from lpplusplus.images.drawings import write_demo


def main(train: Path, test: Path, encoder: str = "embedded") -> None:
    """Train, look at what was learned, save, load, predict."""
    clf = ImageClassifier(encoder=encoder, template="a picture of a {}.").fit(train)
    print(f"Trained on {len(clf.support_)} images of {len(clf.classes_)} classes.")
    result = clf.evaluate(test)
    print(f"Accuracy on other images: {100 * result.accuracy:.1f} %")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "photos.lpp"
        clf.save(file)
        again = ImageClassifier.load(file)  # It remembers its encoder.
        new = sorted(test.glob("*/*"))[::50]
        for path, row in zip(new, again.predict_proba(new), strict=True):
            best = row.argmax()
            print(f"{path.relative_to(test)}: {again.classes_[best]} ({100 * row[best]:.0f} %)")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:4])
    else:
        with tempfile.TemporaryDirectory() as drawn:
            write_demo(Path(drawn, "train"), 8, seed=1)
            write_demo(Path(drawn, "test"), 10, seed=2)
            main(Path(drawn, "train"), Path(drawn, "test"), "drawings")
