#!/usr/bin/env python3
"""export_onnx.py CLASS FILE [--symbolic] [--opset N]: writes a model of torch_models.py as ONNX."""

import argparse
import warnings

import torch
import torch_models

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("model")
parser.add_argument("file")
parser.add_argument("--symbolic", action="store_true")
parser.add_argument("--opset", type=int, default=13)
options = parser.parse_args()

torch.manual_seed(1)
model = getattr(torch_models, options.model)().eval()
if options.model == "ConvNet":
    sample = torch.zeros(1, 3, 32, 32)
elif options.model == "Encoder":
    sample = torch.zeros(1, torch_models.TOKENS, torch_models.WIDTH)
else:
    sample = torch.zeros(1, torch_models.TOKENS, dtype=torch.long)
samples = (sample, sample) if options.model == "T5" else (sample,)
names = ["input", "decoder_input"][: len(samples)]
axes = {name: {0: "batch"} for name in [*names, "output"]} if options.symbolic else None
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.onnx.export(
        model, samples, options.file, input_names=names, output_names=["output"],
        dynamic_axes=axes, opset_version=options.opset,
    )
