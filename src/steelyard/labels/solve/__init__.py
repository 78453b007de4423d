"""The solver of label mechanisms: a conic program, its interior point, and the way back to exact integers.

``program`` writes the problem as cones over intervals of labels, ``interior`` and ``refine`` find a nearly optimal
iterate, ``round`` makes it exact, ``unbiased``, ``frontier`` and ``continuous`` are the three questions asked. The law:
nothing computed here in floats is believed; ``labels/_check.py``, which imports nothing of this folder, judges every
answer.
"""
