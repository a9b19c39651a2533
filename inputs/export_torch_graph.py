#!/usr/bin/env python3
"""Writes the operators of a PyTorch module as a nestplan.fx/1 file, for `nestplan import`.

    export_torch_graph.py model.py:build --input 2048:int64 --batch 1,2,4 -o model.fx.json

`build` is a function of model.py, or of a module on the path, without arguments, that returns a
torch.nn.Module. Every --input is one argument of its forward: the shape of one sample, "3x224x224",
and its type (float32); the batch is put in front. The module is traced by torch.fx, which cannot
follow Python's control flow on values, and run on the meta device: no memory is needed for
activations, and no accelerator. Needs PyTorch 1.13 or newer, and nothing else.
"""

import argparse
import importlib
import importlib.util
import json
import pathlib
import sys

import torch
import torch.fx
from torch.fx.passes.shape_prop import ShapeProp

MOST_MASK_ELEMENTS = 1 << 24


class PathTracer(torch.fx.Tracer):
    """Notes for every node the path of the innermost module that it was called in."""

    proxy_buffer_attributes = True  # masks are sliced to sizes that are not known yet

    def __init__(self):
        super().__init__()
        self.paths = [""]

    def call_module(self, m, forward, args, kwargs):
        self.paths.append(self.path_of_module(m))
        try:
            return super().call_module(m, forward, args, kwargs)
        finally:
            self.paths.pop()

    def create_node(self, *args, **kwargs):
        node = super().create_node(*args, **kwargs)
        node.meta["module"] = self.paths[-1]
        return node


def load(where):
    """The module that "file.py:function" or "package.module:function" builds."""
    source, _, function = where.rpartition(":")
    if not source:
        sys.exit(f"{where}: give FILE.py:FUNCTION or MODULE:FUNCTION")
    if source.endswith(".py"):
        spec = importlib.util.spec_from_file_location(pathlib.Path(source).stem, source)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(source)
    return getattr(module, function)()


def parse_input(text):
    shape, _, dtype = text.partition(":")
    dims = [int(size) for size in shape.split("x")] if shape else []
    return dims, getattr(torch, dtype or "float32")


def is_causal(tensor):
    """Whether the last two axes are a triangle of one value beside one of another."""
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2] or tensor.shape[-1] < 2:
        return False
    if tensor.numel() > MOST_MASK_ELEMENTS or tensor.device.type == "meta":
        return False
    size = tensor.shape[-1]
    upper = torch.ones(size, size, dtype=torch.bool).triu(1)
    matrices = tensor.reshape(-1, size, size)
    above, below = matrices[:, upper], matrices[:, ~upper]
    first, second = above.flatten()[0], below.flatten()[0]
    return bool((above == first).all() and (below == second).all() and first != second)


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def type_of(node, modules):
    if node.op == "placeholder":
        return "placeholder"
    if node.op == "call_module":
        module = modules[node.target]
        if getattr(module, "p", None) == 0 and type(module).__name__.startswith("Dropout"):
            return "Identity"
        return type(module).__name__
    name = node.target if isinstance(node.target, str) else node.target.__name__
    return name.strip("_")


def first_tensor(value):
    """Of what a node gives; None for numbers and shapes."""
    if isinstance(value, torch.fx.passes.shape_prop.TensorMetadata):
        return value
    if isinstance(value, (tuple, list)):
        return next(filter(None, map(first_tensor, value)), None)
    return None


def shared_names(model):
    """For every name of a parameter the first one that it has: tied parameters have several."""
    names, first = {}, {}
    for path, module in model.named_modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                full = f"{path}.{name}".lstrip(".")
                names[full] = first.setdefault(id(parameter), full)
    return names


class Exporter:
    def __init__(self, model):
        model.eval()
        self.causal = {name: is_causal(b) for name, b in model.named_buffers()}
        self.first_name = shared_names(model)
        tracer = PathTracer()
        graph = tracer.trace(model)
        self.module = torch.fx.GraphModule(tracer.root, graph).to("meta")
        self.modules = dict(self.module.named_modules())
        self.constants = {}
        self.shapes = {}

    def run(self, inputs, batch):
        """Notes the shapes that a batch gives."""
        samples = [
            torch.zeros([batch, *dims], dtype=dtype, device="meta") for dims, dtype in inputs
        ]
        ShapeProp(self.module).propagate(*samples)
        for node in self.module.graph.nodes:
            tensor = first_tensor(node.meta.get("tensor_meta"))
            if tensor is None:
                continue
            if isinstance(node.meta["tensor_meta"], torch.fx.passes.shape_prop.TensorMetadata):
                shape = tensor.shape
            else:  # the shape of what the results are parts of
                whole = first_tensor(node.all_input_nodes[0].meta["tensor_meta"])
                shape = whole.shape
            self.shapes.setdefault(node, []).append(list(shape))

    def constant(self, name, tensor):
        name = self.first_name.get(name, name)
        entry = {"name": name, "shape": list(tensor.shape), "dtype": dtype_name(tensor.dtype)}
        if self.causal.get(name):
            entry["causal"] = True
        if not isinstance(tensor, torch.nn.Parameter):
            entry["trained"] = False
        self.constants[name] = entry
        return name

    def attribute(self, path):
        value = self.module
        for part in path.split("."):
            value = getattr(value, part)
        return value

    def inputs_of(self, node):
        names = []

        def add(argument):
            if argument.op == "get_attr":
                value = self.attribute(argument.target)
                if isinstance(value, torch.Tensor):
                    names.append(self.constant(argument.target, value))
            elif argument in self.shapes:
                names.append(argument.name)
            return argument

        torch.fx.node.map_arg(node.args, add)
        torch.fx.node.map_arg(node.kwargs, add)
        if node.op == "call_module":
            for name, parameter in self.modules[node.target].named_parameters():
                names.append(self.constant(f"{node.target}.{name}", parameter))
        return names

    def attributes_of(self, node):
        if node.op == "call_module":
            module = self.modules[node.target]
            if isinstance(module, torch.nn.MultiheadAttention):
                return {"num_heads": module.num_heads, "batch_first": module.batch_first}
        if node.kwargs.get("is_causal") is True:
            return {"is_causal": True}
        return {}

    def node(self, node):
        tensor = first_tensor(node.meta["tensor_meta"])
        entry = {
            "name": node.name,
            "type": type_of(node, self.modules),
            "module": node.meta.get("module", ""),
            "inputs": self.inputs_of(node),
            "dtype": dtype_name(tensor.dtype),
            "shapes": self.shapes[node],
        }
        attributes = self.attributes_of(node)
        if attributes:
            entry["attributes"] = attributes
        return entry

    def document(self, name, batches):
        nodes, outputs = [], []
        for node in self.module.graph.nodes:
            if node.op == "output":
                outputs = [n.name for n in node.all_input_nodes if n in self.shapes]
            elif node.op != "get_attr" and node in self.shapes:
                nodes.append(self.node(node))
        return {
            "format": "nestplan.fx/1",
            "name": name,
            "micro_batches": batches,
            "constants": list(self.constants.values()),
            "nodes": nodes,
            "outputs": outputs,
        }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="FILE.py:FUNCTION or MODULE:FUNCTION")
    parser.add_argument("--input", action="append", required=True, metavar="SHAPE:TYPE")
    parser.add_argument("--batch", default="1", metavar="N,…", help="micro-batches (1)")
    parser.add_argument("--name", help="of the model (that of its class)")
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="(stdout)")
    options = parser.parse_args()
    batches = [int(size) for size in options.batch.split(",")]
    model = load(options.model)
    name = options.name or type(model).__name__
    exporter = Exporter(model)
    inputs = [parse_input(text) for text in options.input]
    for batch in batches:
        exporter.run(inputs, batch)
    text = json.dumps(exporter.document(name, batches), indent=1) + "\n"
    if options.output == "-":
        sys.stdout.write(text)
    else:
        pathlib.Path(options.output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
