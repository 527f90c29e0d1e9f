"""The program of seed 004 in small: a dataset that has, at the same lines, the variables that the seed shows."""

from __future__ import annotations

from pathlib import Path

from tests.dropins.running import write_at

DATASET = [
    (1, "import numpy as np\nimport torch\n\nfrom ttracker import auto_diff, var_tracker\n\n\nclass T2VDataset:"),
    (282, "    def getitem(self, index):"),
    (283, "        return self.get_merge_data([{}] * 4, index)"),
    (330, "    @var_tracker('sample', 'frame_indice')\n    def get_merge_data(self, examples, index):"),
    (335, "        sample = dict.fromkeys('abcdefghij')"),
    (337, "        self.get_videos()"),
    (341, "        frame_indice = list(range(73))"),
    (345, "        return self.transformed(torch.empty(73, 3, 720, 720, dtype=torch.uint8, device='meta'))"),
    (400, "    @auto_diff\n    def get_videos(self):"),
    (402, "        self.start(222, start_frame_idx=0)\n        self.start(1770)"),
    (404, "        videos = [self.decoded(73, 640, 960, 3), self.decoded(73, 720, 960, 3)]"),
    (405, "        return [*videos, self.decoded(73, 720, 960, 3), self.decoded(73, 720, 720, 3)]"),
    (450, "    @auto_diff\n    def start(self, clip_total_frames, start_frame_idx=8):\n        return start_frame_idx"),
    (560, "    @var_tracker('video')\n    def decoded(self, *shape):"),
    (572, "        video = np.broadcast_to(np.uint8(0), shape)"),
    (574, "        video = torch.empty(video.shape, dtype=torch.uint8, device='meta')"),
    (575, "        video = video.permute(0, 3, 1, 2)"),
    (577, "        return video"),
    (580, "    @auto_diff\n    def transformed(self, x):\n        return self.resized(x)"),
    (585, "    @var_tracker('video')\n    def resized(self, x):"),
    (587, "        video = x"),
    (588, "        video = torch.empty(3, 73, 384, 544, device='meta')"),
    (589, "        return video"),
]
MAIN = """
from concurrent.futures import ThreadPoolExecutor

from t2v_dataset import T2VDataset

with ThreadPoolExecutor(1) as threads:
    print(*threads.submit(T2VDataset().getitem, 113).result().shape)
"""


def write(folder: Path) -> Path:
    """Write the program into this folder; the file to run."""
    write_at(folder / "t2v_dataset.py", DATASET)
    (folder / "main.py").write_text(MAIN)
    return folder / "main.py"
