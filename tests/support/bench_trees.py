"""Miniature trees of the benchmark's data sets, with real JPEGs, in the folders and files that the real ones have."""

import json

from toy_images import toy_image

TRAIN, VAL, TEST = 6, 4, 3
"""Images a class in each split."""

LISTED = {
    "sun397": ("sun397/SUN397", "sun397/split_zhou_SUN397.json", "a/{}/sun_{}.jpg", ["abbey", "outdoor bakery"]),
    "dtd": ("dtd/images", "dtd/split_zhou_DescribableTextures.json", "{0}/{0}_{1}.jpg", ["banded", "polka-dotted"]),
    "caltech101": ("caltech-101/101_ObjectCategories", "caltech-101/split_zhou_Caltech101.json", "{}/image_{}.jpg",
                   ["Faces", "car_side", "airplanes"]),
    "ucf101": ("ucf101/UCF-101-midframes", "ucf101/split_zhou_UCF101.json", "{0}/v_{0}_g01_c{1}.jpg",
               ["Apply_Eye_Makeup", "Archery"]),
    "oxford_flowers": ("oxford_flowers/jpg", "oxford_flowers/split_zhou_OxfordFlowers.json", "{}_image_{}.jpg",
                       ["pink primrose", "colt's foot"]),
    "stanford_cars": ("stanford_cars", "stanford_cars/split_zhou_StanfordCars.json", "cars_{}/{}.jpg",
                      ["2012 Audi S4 Sedan", "2000 AM General Hummer SUV"]),
    "eurosat": ("eurosat/2750", "eurosat/split_zhou_EuroSAT.json", "{0}/{0}_{1}.jpg",
                ["AnnualCrop", "Forest", "SeaLake"]),
    "oxford_pets": ("oxford_pets/images", "oxford_pets/split_zhou_OxfordPets.json", "{}_{}.jpg",
                    ["abyssinian", "american_bulldog"]),
    "food101": ("food-101/images", "food-101/split_zhou_Food101.json", "{}/{}.jpg", ["apple_pie", "baklava"]),
}  # fmt: skip
"""Folder of images, split file, how a file is called, class names."""

WNIDS = {"n01440764": "tench", "n03773504": "missile", "n04008634": "missile", "n04356056": "sunglasses"}
"""Two classes of one name, as in CLIP's list."""

SHIFTS = {
    "imagenetv2": ("imagenetv2/imagenetv2-matched-frequency-format-val", ["0", "1", "2", "3"]),
    "imagenet_sketch": ("imagenet-sketch/images", list(WNIDS)),
    "imagenet_a": ("imagenet-adversarial/imagenet-a", ["n01440764", "n04356056"]),
    "imagenet_r": ("imagenet-rendition/imagenet-r", ["n03773504", "n04008634"]),
}

PAPER = [*LISTED, "fgvc_aircraft", "imagenet"]


class Trees:
    """Writes data sets below `root`, no two pictures alike."""

    def __init__(self, root):
        self.root, self.seed = root, 0

    def jpeg(self, *places):
        path = self.root.joinpath(*places)
        path.parent.mkdir(parents=True, exist_ok=True)
        toy_image(self.seed).save(path, "JPEG")
        self.seed += 1

    def text(self, place, content):
        (self.root / place).parent.mkdir(parents=True, exist_ok=True)
        (self.root / place).write_text(content, encoding="utf-8")

    def make(self, name):
        """Write one data set."""
        if name in LISTED:
            self.listed(name)
        elif name in SHIFTS:
            self.shift(name)
        else:
            getattr(self, name)()
        return self.root

    def listed(self, name):
        images, split, pattern, classes = LISTED[name]
        whole = {}
        for part, count in (("train", TRAIN), ("val", VAL), ("test", TEST)):
            whole[part] = []
            for label, classname in enumerate(classes):
                for number in range(count):
                    folder = ("test" if part == "test" else "train") if name == "stanford_cars" else classname
                    file = pattern.format(folder.replace(" ", "_"), f"{part}{label}{number:04}")
                    self.jpeg(images, file)
                    whole[part].append([file, label, classname])
        self.text(split, json.dumps(whole))

    def fgvc_aircraft(self):
        classes = ["707-320", "F-16A/B", "BAE 146-200"]
        self.text("fgvc_aircraft/variants.txt", "\n".join(classes) + "\n")
        for part, count in (("train", TRAIN), ("val", VAL), ("test", TEST)):
            lines = [f"{self.number()} {name}" for name in classes for _ in range(count)]
            for line in lines:
                self.jpeg("fgvc_aircraft/images", line.split()[0] + ".jpg")
            self.text(f"fgvc_aircraft/images_variant_{part}.txt", "\n".join(lines) + "\n")

    def number(self):
        self.seed += 1
        return f"{1000000 + self.seed}"

    def imagenet(self):
        self.classnames("imagenet")
        for part, count in (("train", TRAIN + VAL), ("val", TEST)):
            for wnid in WNIDS:
                for number in range(count):
                    self.jpeg("imagenet/images", part, wnid, f"{wnid}_{number}.JPEG")

    def shift(self, name):
        images, folders = SHIFTS[name]
        self.classnames(images.split("/")[0])
        for folder in folders:
            for number in range(TEST):
                self.jpeg(images, folder, f"{number}.jpg")
        self.text(f"{images}/README.txt", "Not a class.")

    def classnames(self, folder):
        self.text(f"{folder}/classnames.txt", "".join(f"{wnid} {name}\n" for wnid, name in WNIDS.items()))
