"""GPT-2 medium (Radford et al., 2019; the medium one of openai/gpt-2) for export_torch_graph.py:

    export_torch_graph.py gpt_medium.py:build --input 1024:int64 --batch 1,2,4 -o gpt.fx.json

with the vocabulary rounded up to 50,304, a multiple of 128, and without dropout.
"""

import torch
from torch import nn

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY = 24, 16, 1024, 1024, 50304


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).tril())

    def heads(self, x):
        return x.view(x.size(0), x.size(1), HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x):
        parts = self.c_attn(x).split(WIDTH, dim=2)
        query, key, value = [self.heads(parts[i]) for i in range(3)]
        scores = query @ key.transpose(-2, -1) / (WIDTH // HEADS) ** 0.5
        scores = scores.masked_fill(~self.mask[: x.size(1), : x.size(1)], float("-inf"))
        mixed = torch.softmax(scores, -1) @ value
        return self.c_proj(mixed.transpose(1, 2).reshape(x.size(0), x.size(1), WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.wpe = nn.Embedding(CONTEXT, WIDTH)
        self.register_buffer("positions", torch.arange(CONTEXT))
        self.h = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.ln_f = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(self.positions[: ids.size(1)])
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def build():
    with torch.no_grad():
        return Gpt()
