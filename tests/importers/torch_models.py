"""Small models for the tests, as people write them: a GPT with one product for Q, K and V, and a
Llama with rotary positions, fewer key-value heads and a gated MLP; the same with experts; and an
encoder-decoder. Sizes are not unpacked, which torch.fx of PyTorch 1.13 cannot follow in Python
3.11."""

import math

import torch
from torch import nn

VOCABULARY, WIDTH, HEADS, TOKENS, LAYERS = 96, 16, 4, 8, 2


class CausalAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        mask = torch.tril(torch.ones(TOKENS, TOKENS)).view(1, 1, TOKENS, TOKENS)
        self.register_buffer("mask", mask)

    def forward(self, x):
        batch, tokens = x.size(0), x.size(1)
        parts = self.qkv(x).split(WIDTH, dim=2)
        q = parts[0].view(batch, tokens, HEADS, WIDTH // HEADS).transpose(1, 2)
        k = parts[1].view(batch, tokens, HEADS, WIDTH // HEADS).transpose(1, 2)
        v = parts[2].view(batch, tokens, HEADS, WIDTH // HEADS).transpose(1, 2)
        scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(WIDTH // HEADS))
        scores = scores.masked_fill(self.mask[:, :, :tokens, :tokens] == 0, float("-inf"))
        y = torch.softmax(scores, -1) @ v
        return self.proj(y.transpose(1, 2).contiguous().view(batch, tokens, WIDTH))


class GptBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = CausalAttention()
        self.fc, self.act = nn.Linear(WIDTH, 4 * WIDTH), nn.GELU()
        self.out = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.out(self.act(self.fc(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.wpe = nn.Embedding(TOKENS, WIDTH)
        self.register_buffer("positions", torch.arange(TOKENS).unsqueeze(0))
        self.h = nn.ModuleList([GptBlock() for _ in range(LAYERS)])
        self.ln_f = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(self.positions)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class GroupedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.head_dim, self.kv_heads = WIDTH // HEADS, HEADS // 2
        self.q = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k = nn.Linear(WIDTH, WIDTH // 2, bias=False)
        self.v = nn.Linear(WIDTH, WIDTH // 2, bias=False)
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)
        angles = torch.outer(torch.arange(TOKENS), 1e4 ** -torch.linspace(0, 1, self.head_dim // 2))
        self.register_buffer("cos", torch.cat([angles.cos(), angles.cos()], -1))
        self.register_buffer("sin", torch.cat([angles.sin(), angles.sin()], -1))
        self.register_buffer("mask", torch.full((TOKENS, TOKENS), float("-inf")).triu(1))

    def turn(self, x):
        half = self.head_dim // 2
        turned = torch.cat([-x[..., half:], x[..., :half]], -1)
        return x * self.cos + turned * self.sin

    def repeat(self, x):
        batch, heads, tokens, width = x.size(0), self.kv_heads, x.size(2), self.head_dim
        copies = HEADS // self.kv_heads
        x = x[:, :, None].expand(batch, heads, copies, tokens, width)
        return x.reshape(batch, heads * copies, tokens, width)

    def forward(self, x):
        batch, tokens = x.size(0), x.size(1)
        q = self.q(x).view(batch, tokens, HEADS, self.head_dim).transpose(1, 2)
        k = self.k(x).view(batch, tokens, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.v(x).view(batch, tokens, self.kv_heads, self.head_dim).transpose(1, 2)
        q, k, v = self.turn(q), self.repeat(self.turn(k)), self.repeat(v)
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.head_dim) + self.mask
        y = torch.matmul(torch.softmax(scores, -1), v)
        return self.o(y.transpose(1, 2).reshape(batch, tokens, WIDTH))


class LlamaBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = RmsNorm(), RmsNorm()
        self.attention = GroupedAttention()
        self.gate = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        h = self.norm_2(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([LlamaBlock() for _ in range(LAYERS)])
        self.norm = RmsNorm()
        self.output = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.layers:
            x = block(x)
        return self.output(self.norm(x))


EXPERTS, TOP_K = 4, 2


class Experts(nn.Module):
    """Every token goes to two experts, which are as busy as each other: copies of tokens are sorted
    by expert, and back."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.gate = nn.Parameter(torch.randn(EXPERTS, WIDTH, 3 * WIDTH))
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, 3 * WIDTH))
        self.down = nn.Parameter(torch.randn(EXPERTS, 3 * WIDTH, WIDTH))

    def forward(self, x):
        tokens = x.reshape(-1, WIDTH)
        copies = x.size(0) * x.size(1) * TOP_K
        best = torch.softmax(self.router(tokens), -1).topk(TOP_K)
        order = best[1].reshape(-1).topk(copies)[1]
        sent = torch.index_select(tokens, 0, torch.div(order, TOP_K, rounding_mode="floor"))
        sent = sent.view(EXPERTS, copies // EXPERTS, WIDTH)
        inner = nn.functional.silu(torch.bmm(sent, self.gate)) * torch.bmm(sent, self.up)
        done = torch.bmm(inner, self.down).view(copies, WIDTH)
        back = torch.index_select(done, 0, (-order).topk(copies)[1]).view(-1, TOP_K, WIDTH)
        return (back * best[0].unsqueeze(-1)).sum(1).view(x.size(0), x.size(1), WIDTH)


class MixtralBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = RmsNorm(), RmsNorm()
        self.attention, self.experts = GroupedAttention(), Experts()

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.experts(self.norm_2(x))


class Mixtral(Llama):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([MixtralBlock() for _ in range(LAYERS)])


class T5Attention(nn.Module):
    """Over other tokens than its own if these are given; the first of a stack learns what distances
    add to its scores."""

    def __init__(self, causal, biased=False):
        super().__init__()
        self.q, self.k = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.v, self.o = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        mask = torch.full((TOKENS, TOKENS), float("-inf")).triu(1) if causal else None
        self.register_buffer("mask", mask)
        self.bias = nn.Embedding(32, HEADS) if biased else None
        distances = torch.arange(TOKENS)[None] - torch.arange(TOKENS)[:, None] + TOKENS
        self.register_buffer("distances", distances if biased else None)

    def heads(self, x):
        return x.view(x.size(0), x.size(1), HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x, memory):
        scores = torch.matmul(self.heads(self.q(x)), self.heads(self.k(memory)).transpose(2, 3))
        if self.bias is not None:
            scores = scores + self.bias(self.distances).permute(2, 0, 1)
        if self.mask is not None:
            scores = scores + self.mask
        y = torch.matmul(torch.softmax(scores, -1), self.heads(self.v(memory)))
        return self.o(y.transpose(1, 2).reshape(x.size(0), x.size(1), WIDTH))


class T5Block(nn.Module):
    def __init__(self, decodes, biased):
        super().__init__()
        self.norms = nn.ModuleList([RmsNorm() for _ in range(3 if decodes else 2)])
        self.attention = T5Attention(decodes, biased)
        self.cross = T5Attention(False) if decodes else None
        self.gate = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x, memory=None):
        h = self.norms[0](x)
        x = x + self.attention(h, h)
        if self.cross is not None:
            x = x + self.cross(self.norms[1](x), memory)
        h = self.norms[-1](x)
        return x + self.down(nn.functional.gelu(self.gate(h)) * self.up(h))


class T5(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Embedding(VOCABULARY, WIDTH)
        self.encoder = nn.ModuleList([T5Block(False, i == 0) for i in range(LAYERS)])
        self.encoder_norm = RmsNorm()
        self.decoder = nn.ModuleList([T5Block(True, i == 0) for i in range(LAYERS)])
        self.decoder_norm = RmsNorm()
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids, decoder_ids):
        memory = self.shared(ids)
        for block in self.encoder:
            memory = block(memory)
        memory = self.encoder_norm(memory)
        x = self.shared(decoder_ids)
        for block in self.decoder:
            x = block(x, memory)
        return self.lm_head(self.decoder_norm(x))


class FlashGpt(nn.Module):
    """Attention in one operator, its arguments by position and by name; by name in any order."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def heads(self, x):
        return x.view(x.size(0), x.size(1), HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x):
        parts = self.qkv(x).split(WIDTH, dim=2)
        q, k, v = [self.heads(parts[i]) for i in range(3)]
        k, v = k[:, :, : TOKENS // 2], v[:, :, : TOKENS // 2]
        x = attention(q, k, v, None, 0.0, *CAUSAL_BY_POSITION)
        x = first(x)
        return first(attention(is_causal=True, value=v, key=k, query=x))


if hasattr(nn.functional, "scaled_dot_product_attention"):
    attention, CAUSAL_BY_POSITION = nn.functional.scaled_dot_product_attention, (True,)
    first = lambda result: result  # noqa: E731
else:  # PyTorch 1.13, which gives the weights, too
    attention, CAUSAL_BY_POSITION = nn.functional._scaled_dot_product_attention, (False, True)
    first = lambda result: result[0]  # noqa: E731


class LongMask(T5Attention):
    """A causal mask of more than 2^24 elements, in a plain attribute."""

    def __init__(self):
        super().__init__(False)
        self.long_mask = torch.ones(4097, 4097, dtype=torch.bool).tril()

    def forward(self, x):
        scores = torch.matmul(self.heads(self.q(x)), self.heads(self.k(x)).transpose(2, 3))
        scores = scores.masked_fill(~self.long_mask, float("-inf"))
        y = torch.matmul(torch.softmax(scores, -1), self.heads(self.v(x)))
        return self.o(y.transpose(1, 2).reshape(x.size(0), x.size(1), WIDTH))


class Branching(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def broken():
    raise ValueError("no\nweights")


def number():
    return 3


class Encoder(nn.Module):
    """PyTorch's own layer, whose attention is one module."""

    def __init__(self):
        super().__init__()
        self.mix = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.norm = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.mix(x, x, x, need_weights=False)[0]
        return x + self.mlp(self.norm(x))


class ConvNet(nn.Module):
    """Residual branches of convolutions."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.conv_1, self.bn_1 = nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.conv_2 = nn.Conv2d(16, 16, 3, padding=1, groups=4)
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(16, 10)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = x + self.conv_2(torch.relu(self.bn_1(self.conv_1(x))))
        return self.head(self.pool(x).flatten(1))
