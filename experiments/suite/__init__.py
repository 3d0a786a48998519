"""The tests themselves: do they pass wherever the checkout lies, and beside other work?"""

PARTS = {
    "clones": "fresh clones at paths of 8, 60 and 150 characters",
    "idle": "a fresh clone beside nothing, and again",
    "busy": "five runs in the last of these clones while both processors are busy",
}
