"""Builds, changes, prints and drops JSON-like objects: objects.py ROUNDS"""

import json
import sys

from section import section


def order(number):
    """A document of nested objects; every value is an object of its own."""
    return {
        "id": 1_000_000 + number,
        "customer": {"name": f"customer {number}", "tags": [f"tag{number + i}" for i in range(5)]},
        "lines": [
            {"sku": f"sku-{number}-{line}", "count": 300 + line, "price": number * 0.25 + line}
            for line in range(8)
        ],
    }


def total(document):
    return sum(line["count"] * line["price"] for line in document["lines"])


def one_round(documents):
    """Some 170,000 blocks if every object has one of its own (PYTHONMALLOC=malloc)."""
    text = json.dumps([order(number) for number in range(documents)])
    parsed = json.loads(text)
    index = {document["customer"]["name"]: total(document) for document in parsed}
    return len(index)


def main():
    rounds = int(sys.argv[1])
    one_round(500)
    with section():
        for _ in range(rounds):
            one_round(500)


main()
