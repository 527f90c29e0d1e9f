"""The words of the view of variables, in each language it speaks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """What is said in one language; a text with a name in braces is a form to fill in.

    >>> WORDS["en"].called.format(name="get", caller="main", places="run.py:3")
    'get called from main (run.py:3)'
    """

    named: str
    called: str
    inputs: str
    output: str
    yielded: str
    raised: str
    running: str
    thread: str
    within: str
    changed: str
    changes: dict[str, str]
    length: str
    keys: str
    fields: str
    more: str
    mean: str
    nothing: str


WORDS = {
    "en": Words(
        named="{name}",
        called="{name} called from {caller} ({places})",
        inputs="in   ",
        output="out  ",
        yielded="yield ",
        raised="raised ",
        running="still running",
        thread="thread {number}",
        within=" in {function}",
        changed="{changes} changed",
        changes={},
        length="{type}, len {count}",
        keys="{type}, len {count}",
        fields="{type}, {count} fields",
        more="… {count} more",
        mean="mean",
        nothing='no watched function ran in this trace: @insitu.watch("x") on a function records its variable x',
    ),
    "zh": Words(
        named="函数 [{name}]",
        called="函数 [{name}] 被调用于 {caller} ({places})",
        inputs="输入 ",
        output="输出 ",
        yielded="产出 ",
        raised="抛出 ",
        running="仍在运行",
        thread="线程 {number}",
        within=" 于 {function}",
        changed="{changes} 改变",
        changes={
            **{"new": "新", "deleted": "已删除", "type": "类型", "shape": "形状", "device": "设备"},
            **{"length": "长度", "values": "值"},
        },
        length="{type}, 长度 {count}",
        keys="{type}, {count} 个键",
        fields="{type}, {count} 个字段",
        more="… 还有 {count} 个",
        mean="均值",
        nothing='没有被监视的函数: 用 @insitu.watch("x") 装饰函数, 记录其变量 x',
    ),
}
