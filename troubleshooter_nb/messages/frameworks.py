"""What torch, MindSpore and other packages lack here."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "unknown": ("unknown framework {name!r}; known: {known}", "没有框架 {name!r}；已有的框架：{known}"),
    "missing": ("{name} is needed here and does not import ({error}); {install}", "这里需要 {name}，但它无法导入（{error}）；{install}"),
    "install_torch": ("pip install 'troubleshooter_nb[torch]'", "pip install 'troubleshooter_nb[torch]'"),
    "install_mindspore": ("pip install 'troubleshooter_nb[mindspore]' (needs Python < 3.13)", "pip install 'troubleshooter_nb[mindspore]'（需要 Python < 3.13）"),
    "functorch_tensor": ("a tensor inside vmap or another transform of torch.func has no values of its own; record outside of it", "vmap 或其他 torch.func 变换内部的张量没有自己的数值；请在其外部记录"),
    "meta_tensor": ("a meta tensor has no values", "meta 张量没有数值"),
    "ragged_tensor": ("a nested tensor is ragged", "嵌套张量各行长度不一"),
    "no_memory": ("a {dtype} tensor that stands for another one (torch.func.functionalize) has no memory of its own", "代替另一个张量的 {dtype} 张量（torch.func.functionalize）没有自己的内存"),
    "no_array": ("torch makes no array of this {dtype} tensor: {why}", "torch 无法把这个 {dtype} 张量变成数组：{why}"),
    "lazy": ("{name!r} has no shape yet; call the network once, then its lazy modules know theirs", "{name!r} 还没有形状；先调用一次网络，惰性模块便知道自己的形状"),
    "no_gradient": ("no gradient will come for this {shape} {dtype} tensor: it does not require one; watch the output of a trained layer or set requires_grad first", "这个 {shape} {dtype} 张量不会有梯度：它不需要梯度；请改看受训练的层的输出，或先设置 requires_grad"),
    "nothing_to_compile": ("torch.compile runs save() and save_grad() as Python; there is nothing to compile", "torch.compile 把 save() 与 save_grad() 作为 Python 运行；没有要编译的内容"),
    "trace": ("jit(capture_mode=\"trace\") runs Python once only; use capture_mode=\"ast\" or no jit", "jit(capture_mode=\"trace\") 只运行一次 Python；请用 capture_mode=\"ast\"，或不用 jit"),
    "no_dtype": ("numpy has no dtype for MindSpore's {dtype}; cast it to float32 first", "numpy 没有对应 MindSpore {dtype} 的 dtype；请先转换为 float32"),
    "not_differentiable": ("no gradient will come for a tensor of {dtype}: only floating-point numbers have one", "{dtype} 张量不会有梯度：只有浮点数才有梯度"),
    "old_mindspore": ("gradients in compiled code need MindSpore 2.7.1 or newer, this is {version}; run this part in PYNATIVE mode without jit", "编译代码中的梯度需要 MindSpore 2.7.1 或更新版本，当前为 {version}；请在 PYNATIVE 模式下、不用 jit 运行这一部分"),
    "dynamic_shape": ("the shape of {name!r} is known only while the graph runs; {ways}", "{name!r} 的形状只有在图运行时才知道；{ways}"),
    "cpu_only": ("{name!r}: compiled code writes npy files on CPU only; {ways}", "{name!r}：编译代码只能在 CPU 上写 npy 文件；{ways}"),
    "ways": ("use output_mode=\"print\", or run this part in PYNATIVE mode without jit", "请用 output_mode=\"print\"，或在 PYNATIVE 模式下、不用 jit 运行这一部分"),
    "not_saved": ("{name!r} is no tensor, array, number, list, tuple or dict", "{name!r} 不是张量、数组、数、列表、元组或字典"),
    "graph_mode": ("GRAPH_MODE calls no hook of a cell, so nothing can be recorded; call mindspore.set_context(mode=mindspore.PYNATIVE_MODE) first, or use save() and save_grad() of troubleshooter_nb in the network", "GRAPH_MODE 不调用 cell 的任何 hook，因此无法记录；请先调用 mindspore.set_context(mode=mindspore.PYNATIVE_MODE)，或在网络中使用 troubleshooter_nb 的 save() 与 save_grad()"),
    "no_operators": ("single operators are seen from MindSpore 2.9 on, this is {version}; record cells only", "从 MindSpore 2.9 起才能看到单个算子，当前为 {version}；请只记录 cell"),
    "no_values": ("this {dtype} tensor of MindSpore gives no values: {why}", "这个 MindSpore {dtype} 张量没有数值：{why}"),
}
