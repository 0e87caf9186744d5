"""`python -m scripts.tiny_model --out FOLDER` trains the model; it downloads nothing."""

import argparse
import os
import random
import sys
from pathlib import Path

# Before torch is imported: with spinning threads two of them stall each other on a shared machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from transformers.utils import logging

from scripts.tiny_model.conversations import Conversations
from scripts.tiny_model.evaluate import evaluate
from scripts.tiny_model.folder import write_folder, write_record
from scripts.tiny_model.network import build_network
from scripts.tiny_model.samples import Renderer
from scripts.tiny_model.tokenizer import train_tokenizer
from scripts.tiny_model.train import train


def main() -> int:
    """Exit status 1 when the model turns out worse than was asked for; the folder is written all the same."""
    parser = argparse.ArgumentParser(prog="python -m scripts.tiny_model", description=__doc__)
    parser.add_argument("--out", required=True, type=Path, help="folder to write the model to")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--min-accuracy", type=float, default=0.85)
    args = parser.parse_args()

    logging.disable_progress_bar()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    torch.use_deterministic_algorithms(True)
    torch.set_flush_denormal(True)

    tokenizer = train_tokenizer(Conversations(random.Random(args.seed + 7)), Renderer(), vocabulary=2048)
    network = build_network(tokenizer)
    train(network, tokenizer, Conversations(random.Random(args.seed + 11)), args.steps)
    write_folder(args.out, network, tokenizer)
    scores = evaluate(network, tokenizer, random.Random(args.seed + 1_000_003))
    write_record(args.out, args.seed, args.steps, args.threads, scores)
    for task, score in scores.items():
        print(f"{task:16s} {score.right}/{score.total}")
    accuracy = sum(score.right for score in scores.values()) / sum(score.total for score in scores.values())
    print(f"accuracy {accuracy:.3f}")
    return 0 if accuracy >= args.min_accuracy else 1


if __name__ == "__main__":
    sys.exit(main())
