#!/usr/bin/env python3
"""Writes the operators of a PyTorch module as a nestplan.fx/1 file, for `nestplan import`.

    export_torch_graph.py gpt_medium.py:build --input 1024:int64 --batch 1,2,4 -o gpt.fx.json

`build` is a function of gpt_medium.py, or of a module on the path, without arguments, that returns
a torch.nn.Module. Every --input is one argument of its forward: the shape of one sample,
"3x224x224", and its type (float32); the batch is put in front. The module is traced by torch.fx,
which cannot follow Python's control flow on values, and run on the meta device: no memory is needed
for activations, and no accelerator. Needs PyTorch 1.13 or newer, and nothing else.

What is wrong with the arguments or the module is said in one line, with exit code 2.
"""

import argparse
import contextlib
import difflib
import importlib
import importlib.util
import inspect
import io
import json
import os
import pathlib
import sys
import tempfile

try:
    import torch
    import torch.fx
    from torch.fx.passes.shape_prop import ShapeProp, TensorMetadata
except ImportError as missing:
    print(f"{sys.argv[0]}: PyTorch 1.13 or newer is needed: {missing}", file=sys.stderr)
    sys.exit(2)

DTYPES = (
    "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()  # of the format
)
STRIP_ELEMENTS = 1 << 24  # of a mask that are compared at a time
MOST_BATCH = 1 << 20
MOST_SIZE = 1 << 40  # of an axis

# Arguments of attention in the order in which they may be given by position, which builtin
# functions do not tell; the name with an underscore is that of PyTorch 1.13.
ATTENTION_ARGUMENTS = {
    "_scaled_dot_product_attention": (
        "query", "key", "value", "attn_mask", "dropout_p", "need_attn_weights", "is_causal",
    ),
    "scaled_dot_product_attention": (
        "query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa",
    ),
}  # fmt: skip


class BadInput(Exception):
    """What is wrong, in one line."""


def one_line(error):
    """An exception as part of a line."""
    words = str(error).split()
    return f"{type(error).__name__}: {' '.join(words)[:300]}" if words else type(error).__name__


def hint(word, known):
    """The nearest right thing, or all of them."""
    near = difflib.get_close_matches(word, known, 1)
    if near:
        return f' (did you mean "{near[0]}"?)'
    return f" (known: {', '.join(known)})" if known else ""


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


def module_of_file(path):
    """Runs a file, next to whose own modules it may import."""
    if not path.is_file():
        folder = path.parent if path.parent.is_dir() else pathlib.Path(".")
        known = [each.name for each in folder.glob("*.py")]
        raise BadInput(f"{path}: no such file{hint(path.name, known)}")
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def source_module(source):
    try:
        if source.endswith(".py"):
            return module_of_file(pathlib.Path(source))
        sys.path.insert(0, os.getcwd())
        return importlib.import_module(source)
    except BadInput:
        raise
    except ModuleNotFoundError as error:
        if error.name == source:
            raise BadInput(f"{source}: no such module (a file needs its .py)") from None
        raise BadInput(f"{source}: {one_line(error)}") from None
    except (Exception, SystemExit) as error:
        raise BadInput(f"{source}: {one_line(error)}") from None


def load(where):
    """The module that "file.py:function" or "package.module:function" builds."""
    source, _, function = where.rpartition(":")
    if not source or not function:
        raise BadInput(f"{where}: give FILE.py:FUNCTION or MODULE:FUNCTION")
    module = source_module(source)
    build = getattr(module, function, None)
    if not callable(build):
        own = [
            name
            for name, value in vars(module).items()
            if callable(value) and getattr(value, "__module__", None) == module.__name__
        ]
        what = f"{source} has no function or class {function}"
        raise BadInput(f"{where}: {what}{hint(function, own)}")
    try:
        model = build()
    except (Exception, SystemExit) as error:
        raise BadInput(f"{where}: cannot be built: {one_line(error)}") from None
    if not isinstance(model, torch.nn.Module):
        kind = type(model).__name__
        raise BadInput(f"{where}: gives an object of the class {kind}, not a torch.nn.Module")
    return model


def whole_number(text, most):
    number = int(text) if text.isascii() and text.isdigit() else 0
    return number if 1 <= number <= most else None


def parse_input(text):
    shape, _, dtype = text.partition(":")
    dims = [whole_number(size, MOST_SIZE) for size in shape.split("x")] if shape else []
    if None in dims:
        raise BadInput(f'--input: "{text}" is no shape such as 1024:int64 or 3x224x224')
    dtype = dtype or "float32"
    if dtype not in DTYPES:
        raise BadInput(f'--input: "{text}": unknown type "{dtype}"{hint(dtype, DTYPES)}')
    return dims, getattr(torch, dtype)


def parse_batches(text):
    batches = [whole_number(size, MOST_BATCH) for size in text.split(",")]
    if None in batches or len(set(batches)) < len(batches):
        raise BadInput(f'--batch: "{text}" is no list of different whole numbers such as 1,2,4')
    return batches


def check_inputs(model, inputs):
    """That there is an --input for every argument of forward that needs one."""
    signature = inspect.signature(model.forward)
    try:
        signature.bind(*inputs)
    except TypeError as error:
        takes = ", ".join(signature.parameters) or "nothing"
        what = f"{len(inputs)} given, but forward of {type(model).__name__} takes {takes}"
        raise BadInput(f"--input: {what}: {error}") from None


def is_causal(tensor):
    """Whether the last two axes are a triangle of one value beside one of another."""
    size = tensor.shape[-1]
    matrices = tensor.reshape(-1, size, size)
    above, below = matrices[0, 0, 1], matrices[0, 0, 0]
    if above == below:
        return False
    columns = torch.arange(size)
    step = max(1, STRIP_ELEMENTS // (matrices.shape[0] * size))
    for start in range(0, size, step):
        rows = torch.arange(start, min(size, start + step))
        triangle = torch.where(columns > rows[:, None], above, below)
        if not bool((matrices[:, start : start + step] == triangle).all()):
            return False
    return True


def may_be_mask(tensor):
    return tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2] > 1 and tensor.numel() > 0


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
    if isinstance(value, TensorMetadata):
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
        self.first_name = shared_names(model)
        tracer = PathTracer()
        try:
            graph = tracer.trace(model)
        except Exception as error:
            where = tracer.paths[-1] or type(model).__name__
            raise BadInput(f"{where}: torch.fx cannot trace it: {one_line(error)}") from None
        self.module = torch.fx.GraphModule(tracer.root, graph)
        self.causal = self.causal_masks()
        self.module.to("meta")
        self.modules = dict(self.module.named_modules())
        self.constants = {}
        self.shapes = {}

    def causal_masks(self):
        """By name: whether a constant that may be a mask is a causal one."""
        causal = {}
        for node in self.module.graph.nodes:
            tensor = self.attribute(node.target) if node.op == "get_attr" else None
            if not isinstance(tensor, torch.Tensor) or isinstance(tensor, torch.nn.Parameter):
                continue
            if not may_be_mask(tensor) or node.target in causal:
                continue
            if tensor.device.type == "meta":
                print(
                    f"{node.target}: has no values on the meta device: attention that it masks "
                    "counts all pairs, as if it were not causal",
                    file=sys.stderr,
                )
            causal[node.target] = tensor.device.type != "meta" and is_causal(tensor.cpu())
        return causal

    def run(self, inputs, batch):
        """Notes the shapes that a batch gives."""
        samples = [
            torch.zeros([batch, *dims], dtype=dtype, device="meta") for dims, dtype in inputs
        ]
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # which a traceback is printed to
                ShapeProp(self.module).propagate(*samples)
        except Exception as error:
            shapes = ", ".join("x".join(map(str, sample.shape)) for sample in samples)
            why = one_line(error.__context__ or error)
            raise BadInput(f"--input: the module cannot be run on {shapes}: {why}") from None
        for node in self.module.graph.nodes:
            tensor = first_tensor(node.meta.get("tensor_meta"))
            if tensor is None:
                continue
            if isinstance(node.meta["tensor_meta"], TensorMetadata):
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

    def arguments(self, node):
        """By name, in the order of the signature, however they were given."""
        if node.op == "call_module":
            signature = inspect.signature(self.modules[node.target].forward)
            return signature.bind(*node.args, **node.kwargs).arguments
        names = ATTENTION_ARGUMENTS.get(getattr(node.target, "__name__", None))
        if names:
            given = {**dict(zip(names, node.args)), **node.kwargs}
            return {name: given[name] for name in names if name in given}
        if any(isinstance(value, torch.fx.Node) for value in node.kwargs.values()):
            ordered = node.normalized_arguments(self.module, normalize_to_only_use_kwargs=True)
            if ordered is not None:
                return ordered.kwargs
        return {**dict(enumerate(node.args)), **node.kwargs}

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

        torch.fx.node.map_arg(list(self.arguments(node).values()), add)
        if node.op == "call_module":
            for name, parameter in self.modules[node.target].named_parameters():
                names.append(self.constant(f"{node.target}.{name}", parameter))
        return names

    def attributes_of(self, node):
        attributes = {}
        if node.op == "call_module":
            module = self.modules[node.target]
            if isinstance(module, torch.nn.MultiheadAttention):
                attributes = {"num_heads": module.num_heads, "batch_first": module.batch_first}
        causal = self.arguments(node).get("is_causal")
        if isinstance(causal, torch.fx.Node):
            raise BadInput(f"{node.name}: is_causal depends on a size: give True or False")
        if causal:
            attributes["is_causal"] = True
        return attributes

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


def write(text, output):
    """The whole of the file or nothing."""
    if output == "-":
        sys.stdout.write(text)
        return
    path = pathlib.Path(output)
    try:
        if path.exists() and not path.is_file():  # such as /dev/stdout
            path.write_text(text, encoding="utf-8")
            return
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=path.name, delete=False
        ) as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(file.name, 0o666 & ~umask)
        os.replace(file.name, path)
    except OSError as error:
        raise BadInput(f"-o: {output}: {error.strerror}") from None


def export(options):
    inputs = [parse_input(text) for text in options.input]
    batches = parse_batches(options.batch)
    source = options.model.rpartition(":")[0]
    if source.endswith(".py") and os.path.realpath(options.output) == os.path.realpath(source):
        raise BadInput(f"-o: {options.output} is the model itself")
    model = load(options.model)
    check_inputs(model, inputs)
    exporter = Exporter(model)
    for batch in batches:
        exporter.run(inputs, batch)
    name = options.name or type(model).__name__
    write(json.dumps(exporter.document(name, batches), indent=1) + "\n", options.output)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="FILE.py:FUNCTION or MODULE:FUNCTION")
    parser.add_argument("--input", action="append", required=True, metavar="SHAPE:TYPE")
    parser.add_argument("--batch", default="1", metavar="N,…", help="micro-batches (1)")
    parser.add_argument("--name", help="of the model (that of its class)")
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="(stdout)")
    try:
        export(parser.parse_args())
    except BadInput as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
