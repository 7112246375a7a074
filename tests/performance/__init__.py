"""What Nightbench itself costs: figures, printed and never asserted.

python -m tests.performance            # all, one after another
python -m tests.performance one_gang --processes 160
"""
