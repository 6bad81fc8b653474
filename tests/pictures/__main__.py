"""``python -m tests.pictures`` renders the pictures of the documents: `make pictures`."""

from tests.pictures.pictures import FOLDER, pictures

FOLDER.mkdir(exist_ok=True)
for name, svg in pictures().items():
    (FOLDER / name).write_text(svg, encoding="utf-8")
    print(f"{len(svg.encode()) / 1000:5.1f} kB  docs/pictures/{name}")
