"""insitu in frameworks and tools: callbacks of Trainers, TensorBoard, pytest.

Each file is for one framework, and only that file imports it. The files use the public names of insitu.
"""
