"""fastText's and omikuji's files and P@1 on the rows of bench_compress.py, in an interpreter that has both.

fastText (supervised, softmax over all classes, first labels; words are the numbers of a row's features, without their
values, which it does not take) as trained and quantized; omikuji (3 trees, default) on all labels.

    PYTHON bench/compress_peers.py FOLDER
"""

import argparse
import os
import time
from pathlib import Path

import fasttext
import numpy as np
import omikuji
from scipy import sparse


def lists(matrix):
    """Columns of each row."""
    return [matrix.indices[a:b] for a, b in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)]


def folder_bytes(path):
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file()) if path.is_dir() else path.stat().st_size


def fast_text(work, data):
    """File and P@1 of first labels, as trained and quantized."""
    (X, Y), (X_test, Y_test) = data
    first = [labels[0] for labels in lists(Y)]
    lines = [f"__label__{label} " + " ".join(map(str, row)) for label, row in zip(first, lists(X), strict=True)]
    (work / "fast.txt").write_text("\n".join(lines) + "\n")
    begin = time.process_time()
    model = fasttext.train_supervised(
        str(work / "fast.txt"), dim=100, epoch=5, lr=0.5, loss="softmax" if Y.shape[1] < 10_000 else "hs", thread=1
    )
    seconds = time.process_time() - begin
    texts = [" ".join(map(str, row)) for row in lists(X_test)]
    true, any_true = [labels[0] for labels in lists(Y_test)], [set(labels) for labels in lists(Y_test)]

    def told(name, suffix):
        path = work / f"fast.{suffix}"
        model.save_model(str(path))
        begin = time.perf_counter()
        found = [int(labels[0].removeprefix("__label__")) for labels in model.predict(texts, k=1)[0]]
        us = (time.perf_counter() - begin) / len(texts) * 1e6
        first_right = np.mean([a == b for a, b in zip(found, true, strict=True)])
        right = np.mean([a in b for a, b in zip(found, any_true, strict=True)])
        print(f"| {name} | {path.stat().st_size / 1e6:.2f} | {first_right:.4f} | {right:.4f} | {us:.0f} |", flush=True)

    told(f"fastText, {seconds:.0f} CPU s", "bin")
    model.quantize(input=str(work / "fast.txt"), qnorm=True, retrain=False)
    told("fastText quantized", "ftz")
    model = fasttext.load_model(str(work / "fast.bin"))
    model.quantize(input=str(work / "fast.txt"), qnorm=True, cutoff=max(1000, X.shape[1] // 4), retrain=True, thread=1)
    told("fastText quantized, a quarter of the features", "ftz")


def omikuji_trees(work, data):
    """Folder and P@1 of all labels."""
    (X, Y), (X_test, Y_test) = data
    lines = [f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}"]
    for i, labels in enumerate(lists(Y)):
        row = slice(X.indptr[i], X.indptr[i + 1])
        values = zip(X.indices[row], X.data[row], strict=True)
        lines.append(",".join(map(str, labels)) + " " + " ".join(f"{j}:{v:.5f}" for j, v in values))
    (work / "omikuji.txt").write_text("\n".join(lines) + "\n")
    begin = time.process_time()
    model = omikuji.Model.train_on_data(str(work / "omikuji.txt"), n_threads=1)
    seconds = time.process_time() - begin
    model.save(str(work / "omikuji"))
    rows = [
        list(zip(X_test.indices[a:b].tolist(), X_test.data[a:b].tolist(), strict=True))
        for a, b in zip(X_test.indptr[:-1], X_test.indptr[1:], strict=True)
    ]
    begin = time.perf_counter()
    found = [model.predict(row, top_k=1)[0][0] for row in rows]
    us = (time.perf_counter() - begin) / len(rows) * 1e6
    right = np.mean([a in set(b) for a, b in zip(found, lists(Y_test), strict=True)])
    size = folder_bytes(work / "omikuji") / 1e6
    print(f"| omikuji, 3 trees, {seconds:.0f} CPU s | {size:.2f} | | {right:.4f} | {us:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=("fasttext", "omikuji"))
    args = parser.parse_args()
    data = [
        tuple(sparse.load_npz(args.folder / f"{kind}_{part}.npz").tocsr() for kind in "XY")
        for part in ("train", "test")
    ]
    print(f"\n{args.folder.name}, load {os.getloadavg()[0]:.1f}\n")
    print("| model | MB on disk | P@1 of first labels | P@1 of all labels | us a row |\n|---|---|---|---|---|")
    if args.only != "fasttext":
        omikuji_trees(args.folder, data)
    if args.only != "omikuji":
        fast_text(args.folder, data)


if __name__ == "__main__":
    main()
