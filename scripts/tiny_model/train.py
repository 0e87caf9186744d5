"""Training: Muon for the matrices inside the layers, AdamW for the embedding and the norms."""

import math
import random
import time
from typing import Any, TypeAlias

import torch
from tokenizers import Tokenizer
from transformers import Qwen3ForCausalLM

from scripts.tiny_model.conversations import Conversations
from scripts.tiny_model.samples import Renderer, make_sample
from scripts.tiny_model.tokenizer import IGNORED, PAD, encode_sample

_LEARNING_RATE = 4e-3
_TOKENS_PER_STEP = 4096
_SAMPLES_PER_ROUND = 1600

Encoded: TypeAlias = tuple[list[int], list[int]]


def train(network: Qwen3ForCausalLM, tokenizer: Tokenizer, conversations: Conversations, steps: int) -> None:
    """Train in place; prints the loss every hundred steps."""
    render = Renderer()
    pad = tokenizer.token_to_id(PAD)
    optimizers = make_optimizers(network)
    schedules = [torch.optim.lr_scheduler.LambdaLR(each, lambda step: _warm_cosine(step, steps)) for each in optimizers]
    network.train()
    samples: list[Encoded] = []
    queue: list[list[int]] = []
    running = 0.0
    started = time.monotonic()
    for step in range(1, steps + 1):
        if not queue:
            samples = [encode_sample(tokenizer, make_sample(conversations, render)) for _ in range(_SAMPLES_PER_ROUND)]
            queue = make_batches(samples, _TOKENS_PER_STEP // 2, conversations.rng)
        network.zero_grad(set_to_none=True)
        for batch in [queue.pop(), queue.pop()] if len(queue) > 1 else [queue.pop()]:
            loss = backward(network, [samples[i] for i in batch], pad)
            running = 0.97 * running + 0.03 * loss if running else loss
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
        if step % 100 == 0 or step == steps:
            print(f"step {step}/{steps} loss {running:.4f} {time.monotonic() - started:.0f} s", flush=True)
    network.eval()


def make_optimizers(network: Qwen3ForCausalLM) -> list[Any]:
    matrices = [p for name, p in network.named_parameters() if p.dim() == 2 and "embed" not in name]
    others = [p for name, p in network.named_parameters() if p.dim() != 2 or "embed" in name]
    return [
        torch.optim.Muon(matrices, lr=_LEARNING_RATE, weight_decay=0.02, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=_LEARNING_RATE, weight_decay=0.0, betas=(0.9, 0.98), eps=1e-8),
    ]


def make_batches(samples: list[Encoded], tokens_per_batch: int, rng: random.Random) -> list[list[int]]:
    """Indexes of samples of about equal lengths, in random order."""
    order = sorted(range(len(samples)), key=lambda i: (len(samples[i][0]) // 16, rng.random()))
    batches: list[list[int]] = []
    batch: list[int] = []
    longest = 0
    for i in order:
        length = len(samples[i][0])
        if batch and max(longest, length) * (len(batch) + 1) > tokens_per_batch:
            batches.append(batch)
            batch, longest = [], 0
        batch.append(i)
        longest = max(longest, length)
    batches.append(batch)
    rng.shuffle(batches)
    return batches


def backward(network: Qwen3ForCausalLM, batch: list[Encoded], pad: int) -> float:
    """Add the gradients of a batch; its loss per token."""
    longest = max(len(ids) for ids, _ in batch)
    ids = torch.full((len(batch), longest), pad)
    labels = torch.full((len(batch), longest), IGNORED)
    for row, (sample_ids, sample_labels) in enumerate(batch):
        ids[row, : len(sample_ids)] = torch.tensor(sample_ids)
        labels[row, : len(sample_labels)] = torch.tensor(sample_labels)
    # Right padding under a causal mask needs no attention mask.
    hidden = network.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
    wanted = labels[:, 1:]
    kept = wanted != IGNORED
    logits = hidden[kept] @ network.lm_head.weight.T
    loss = torch.nn.functional.cross_entropy(logits, wanted[kept], reduction="sum")
    # One weight per token, not per batch, so that short and long answers count alike.
    (loss / (0.25 * _TOKENS_PER_STEP)).backward()
    return float(loss.item() / int(kept.sum()))


def _warm_cosine(step: int, steps: int) -> float:
    warm = min(60, max(1, steps // 10))
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps)))
    return min(1.0, (step + 1) / warm) * (0.02 + 0.98 * cosine)
