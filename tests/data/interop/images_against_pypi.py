"""Compares pictures with Pillow's exif_transpose() and convert(), and the values that a model gets of them with those
of transformers' ViTImageProcessor and DeiTImageProcessor: PNG of every depth and kind, with gamma and profiles; JPEG in
gray, colours and inks, progressive and subsampled, with profiles; all EXIF orientations; odd sizes, made smaller and
larger.

usage: images_against_pypi.py PROGRAM      PROGRAM: the test binary read_images
"""
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy
from PIL import Image, ImageCms, ImageOps
from transformers.image_utils import load_image

try:  # since version 5
    from transformers import DeiTImageProcessorPil as CroppingProcessor, ViTImageProcessorPil as Processor
except ImportError:
    from transformers import DeiTImageProcessor as CroppingProcessor, ViTImageProcessor as Processor

RANDOM = numpy.random.default_rng(5)
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def noise(width, height, channels):
    """Patches of four pixels with noise on them, so that JPEG keeps colours apart."""
    coarse = RANDOM.integers(0, 256, (height // 4 + 1, width // 4 + 1, channels))
    fine = coarse.repeat(4, 0).repeat(4, 1)[:height, :width] + RANDOM.integers(-9, 10, (height, width, channels))
    image = fine.clip(0, 255).astype(numpy.uint8)
    return image[:, :, 0] if channels == 1 else image


def with_chunk(png, name, content):
    """The file with a chunk behind its header."""
    return (png[:33] + struct.pack(">I", len(content)) + name + content +
            struct.pack(">I", zlib.crc32(name + content)) + png[33:])


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def raw_png(width, height, depth, colours, bits, palette=b""):
    """A PNG of random pixels, of a kind that Pillow does not write."""
    line = (width * bits + 7) // 8
    lines = b"".join(b"\0" + RANDOM.bytes(line) for _ in range(height))
    png = b"\x89PNG\r\n\x1a\n"
    for name, content in ((b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, 0)), (b"PLTE", palette),
                          (b"IDAT", zlib.compress(lines)), (b"IEND", b"")):
        if content or name == b"IEND":
            png += struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    return png


def exif(orientation):
    block = Image.Exif()
    block[0x0112] = orientation
    return block


def pngs():
    for depth in (1, 2, 4):
        yield f"gray{depth}.png", raw_png(33, 21, depth, 0, depth)
        yield f"palette{depth}.png", raw_png(33, 21, depth, 3, depth, RANDOM.bytes(3 << depth))
    yield "palette8.png", raw_png(30, 40, 8, 3, 8, RANDOM.bytes(768))
    yield "colours16.png", raw_png(29, 31, 16, 2, 48)
    yield "alpha16.png", raw_png(29, 31, 16, 6, 64)
    yield "gray_alpha16.png", raw_png(29, 31, 16, 4, 32)
    for mode, channels in (("L", 1), ("LA", 2), ("RGB", 3), ("RGBA", 4)):
        plain = saved(Image.fromarray(noise(37, 23, channels)), "PNG")
        yield f"{mode}.png", plain
        for gamma in (100000, 45455, 30000):
            yield f"{mode}_gamma{gamma}.png", with_chunk(plain, b"gAMA", struct.pack(">I", gamma))
        yield f"{mode}_srgb.png", with_chunk(plain, b"sRGB", b"\0")
    image = Image.fromarray(noise(50, 20, 3))
    yield "profile.png", saved(image, "PNG", icc_profile=PROFILE)
    yield "transparent_palette.png", saved(image.convert("P"), "PNG", transparency=3)
    yield "transparent_colour.png", saved(image, "PNG", transparency=(1, 2, 3))
    for orientation in range(1, 9):
        yield f"turned{orientation}.png", saved(image, "PNG", exif=exif(orientation))


def jpegs():
    image = Image.fromarray(noise(61, 43, 3))
    yield "gray.jpg", saved(image.convert("L"), "JPEG")
    for sampling in (0, 1, 2):
        yield f"colours{sampling}.jpg", saved(image, "JPEG", subsampling=sampling, quality=70)
    yield "progressive.jpg", saved(image, "JPEG", progressive=True)
    yield "stored_rgb.jpg", saved(image, "JPEG", keep_rgb=True)
    yield "profile.jpg", saved(image, "JPEG", icc_profile=PROFILE)
    yield "inks.jpg", saved(Image.frombytes("CMYK", (40, 30), noise(40, 30, 4).tobytes()), "JPEG")
    for orientation in range(1, 9):
        yield f"turned{orientation}.jpg", saved(image, "JPEG", exif=exif(orientation))


def sizes():
    for width, height in ((1, 1), (1, 50), (50, 1), (16, 16), (15, 17), (97, 31), (31, 97), (400, 300), (300, 401)):
        yield f"{width}x{height}.png", saved(Image.fromarray(noise(width, height, 3)), "PNG")


def check(condition, text):
    if not condition:
        sys.exit(text)


def compare(program, folder, names, config, channels):
    resized = config["size"]["height"]
    size = config.get("crop_size", config["size"])["height"]
    with open(os.path.join(folder, "preprocessor_config.json"), "w", encoding="utf-8") as out:
        json.dump(config, out)
    paths = [os.path.join(folder, name) for name in names]
    answers = subprocess.run([program, folder, str(size), str(channels)], input="\n".join(paths) + "\n", text=True,
                             stdout=subprocess.PIPE, check=True).stdout.splitlines()
    check(len(answers) == len(paths), f"{len(paths)} answers are wanted, {len(answers)} came")
    processor = (CroppingProcessor if "crop_size" in config else Processor).from_pretrained(folder)
    for path, line in zip(paths, answers):
        answer = json.loads(line)
        check("error" not in answer, f"{path}: {answer.get('error')}")
        image = ImageOps.exif_transpose(Image.open(path)).convert("L" if answer["channels"] == 1 else "RGB")
        found = numpy.array(answer["pixels"]).reshape(answer["height"], answer["width"], -1)
        wanted = numpy.array(image).reshape(image.height, image.width, -1)
        check(found.shape == wanted.shape, f"{path}: has the shape {found.shape}, {wanted.shape} is wanted")
        check((found == wanted).all(), f"{path}: pixels differ by up to {abs(found - wanted).max()}")
        image = load_image(path) if channels == 3 else load_image(path).convert("L")
        if image.height > image.width:  # Pillow 13 begins with the height of such an image, versions before do not
            image = image.resize((resized, image.height), config["resample"])
        wanted = processor(image, return_tensors="np")["pixel_values"].ravel()
        scale = 255 * numpy.repeat(config["image_std"], size * size)
        apart = abs(numpy.array(answer["values"]) - wanted) * scale  # in 1/255
        check(apart.max() < 1e-3, f"{path}: values differ by {apart.max():.4f} of 1/255 with {config}")


def main():
    program = sys.argv[1]
    pictures = dict([*pngs(), *jpegs(), *sizes()])
    with tempfile.TemporaryDirectory() as folder:
        for name, content in pictures.items():
            with open(os.path.join(folder, name), "wb") as out:
                out.write(content)
        for resample in (2, 3):
            for channels, mean, deviation in ((3, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]), (1, [0.5], [0.5])):
                for size in (16, 45):
                    config = {"image_processor_type": "ViTImageProcessor", "size": {"height": size, "width": size},
                              "resample": resample, "image_mean": mean, "image_std": deviation}
                    compare(program, folder, list(pictures), config, channels)
                    whole = size + size // 7
                    crop = {"image_processor_type": "DeiTImageProcessor", "do_center_crop": True,
                            "size": {"height": whole, "width": whole}, "crop_size": config["size"]}
                    compare(program, folder, list(pictures), {**config, **crop}, channels)
    print(f"{len(pictures)} pictures have the same pixels, and the same values in 8 forms")


if __name__ == "__main__":
    main()
