"""The agent of this example: a program that reads a prompt and edits files, as a model would through a coding agent.

It mends one mistake a visit, so that the loop of the graph turns twice; what it writes is real.
"""

import pathlib
import sys
import time

MENDINGS = [
    ("price - price * percent", "price - price * percent // 100", "The percentage was never divided by 100."),
    ("len(prices) > 3", "len(prices) >= 3", "The discount holds from three things on, not from four."),
]

prompt = sys.stdin.read()
path = pathlib.Path("shop/discount.py")
source = path.read_text()
time.sleep(0.5)
for wrong, right, why in MENDINGS:
    if wrong in source and right not in source:
        path.write_text(source.replace(wrong, right))
        print(f"{why} I changed {path}.")
        break
else:
    print("I see nothing left to mend." if "failed" not in prompt else "I looked again and see nothing left to mend.")
