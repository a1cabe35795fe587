"""A small folder of each source's format, and the rows that it holds."""

import json
from typing import Any, NamedTuple


def lines(*rows: Any) -> str:
    """JSON of each row, and texts as they are."""
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


class Sample(NamedTuple):
    """A source: keys of `data`, its files, and its rows as the reader yields them."""

    keys: dict[str, Any]
    files: dict[str, str]
    passages: list[tuple[Any, ...]]
    queries: dict[str, list[tuple[Any, ...]]]
    judgements: dict[str, list[tuple[Any, ...]]]


def asked(*rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [(*row, ()) if len(row) == 2 else row for row in rows]


def judged(*rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [(*row, None) if len(row) == 3 else row for row in rows]


CORPUS = lines(
    {"_id": "p1", "title": "Ash", "text": "A tree with black buds."},
    {"_id": "p2", "title": None, "text": "Yew is poisonous."},
    {"_id": "p3", "text": "Oars are\nmade of ash.", "metadata": {"url": None}},
    {"_id": "p4", "title": "Café", "text": ""},
)
PASSAGES = [
    ("p1", "Ash", "A tree with black buds."),
    ("p2", "", "Yew is poisonous."),
    ("p3", "", "Oars are\nmade of ash."),
    ("p4", "Café", ""),
]
QUERIES = {"q3": "What are oars made of?", "q1": "Which tree has black buds?", "q2": "Is yew poisonous?", "q4": "None"}
BEIR = {
    "corpus.jsonl": CORPUS,
    "queries.jsonl": lines(*({"_id": qid, "text": text} for qid, text in QUERIES.items())),
    "qrels/train.tsv": "query-id\tcorpus-id\tscore\nq1\tp1\t2\nq3\tp3\t1\nq3\tp2\t0\nq1\tp3\t-1\n",
    "qrels/dev.tsv": "q2 0 p2 1\n",  # TREC's form
    "qrels/test.tsv": "query-id\tcorpus-id\nq2\tp2\nq3\tp3\n",  # without grades
}
TREES = lines("0\tA lamp turns.", "1\tA light flashes.", "2\tTides are high.", '3\t"Eel" is smoked.')
MSMARCO = {
    "collection.tsv": TREES,
    "queries.train.tsv": lines("10\twhat turns", "11\twhat flashes", "12\twithout a judgement"),
    "qrels.train.tsv": lines("10\t0\t0\t1", "11\t0\t1\t1", "10\t0\t0\t1"),
    "queries.dev.small.tsv": lines("20\twhat is high", "21\twhat is smoked"),
    "qrels.dev.small.tsv": lines("20\t0\t2\t1", "21\t0\t3\t1"),
    "msmarco-test2019-queries.tsv": lines("30\twhat shines"),
    "2019qrels-pass.txt": lines("30 0 0 3", "30 0 1 2", "30 0 2 0"),
}
TRAIN = asked(("10", "what turns"), ("11", "what flashes"), ("12", "without a judgement"))
DEV = asked(("20", "what is high"), ("21", "what is smoked"))
LAMPS = [(pid, "", text) for pid, text in (line.split("\t") for line in TREES.splitlines())]
TRAINED, DEVELOPED = judged(("10", "0", 1), ("11", "1", 1), ("10", "0", 1)), judged(("20", "2", 1), ("21", "3", 1))
EXAMPLES = [
    {"question": "who built it", "positive_ctxs": [{"passage_id": "2"}, {"passage_id": "1"}, {"passage_id": "2"}]},
    {"question": "without a positive", "positive_ctxs": []},
    {"question": "what runs", "positive_ctxs": [{"psg_id": 1}]},
]
DPR = {
    "psgs_w100.tsv": lines("id\ttext\ttitle", '1\t"The ""Scotsman"" runs."\tTrains', "2\tCarl built it.\tCarl"),
    "biencoder-nq-train.json": json.dumps(EXAMPLES),
    "nq-dev.qa.csv": lines("how long\t['eight hours', '8 hours']"),
    "nq-test.qa.csv": lines("when\t['1854']", '''"what is ""it"""\t"[""Ghega's"", ' ']"'''),
}
LOADED = {  # as DPR's own download names them
    "wikipedia_split/psgs_w100.tsv": DPR["psgs_w100.tsv"].removeprefix("id\ttext\ttitle\n"),
    "retriever/trivia-train.json": DPR["biencoder-nq-train.json"],
    "retriever/qas/trivia-test.csv": DPR["nq-test.qa.csv"],
}
TRAINS = [("1", "Trains", 'The "Scotsman" runs.'), ("2", "Carl", "Carl built it.")]
QUESTIONS = asked(("0", "who built it"), ("1", "without a positive"), ("2", "what runs"))
TESTED = [("0", "when", ("1854",)), ("1", 'what is "it"', ("Ghega's",))]
POSITIVES = judged(("0", "2", 1), ("0", "1", 1), ("2", "1", 1))
# Hashes decide their splits: oars 12..., ash a0..., oak tree cc..., what is yew e3...
YEW, ASH, OARS, OAK = "e364fb8033169dc6", "a022a22c1a1a6a37", "12ed5e78f7c9769b", "cc2d7f058bb31c90"
LOGGED = [
    *(("What is yew?", "p2", 3), ("what  is\u00a0YEW", "p2", 2), ("WHAT IS YEW!", "p1", 1), ("ash", "p3", 7)),
    *(("Oars", "p9", 1), ("oak tree", "p1", ""), ("???", "p1", 1), ("bud", "p1", 0)),
]
LOG = {"corpus.jsonl": CORPUS, "log.tsv": lines("query\tpid\tcount", *("\t".join(map(str, row)) for row in LOGGED))}
OBJECTS = lines(*({"user": 5, "query": query, "pid": pid, "count": count or None} for query, pid, count in LOGGED[:-1]))
HALVES = {"source": "log", "dev_fraction": 0.5, "test_fraction": 0.5}
OF_LOG = (
    {"train": asked((OAK, "oak tree"), (YEW, "What is yew?")), "dev": [(ASH, "ash", ())], "test": [(OARS, "Oars", ())]},
    {
        "train": [(OAK, "p1", 1, 1), (YEW, "p1", 1, 1), (YEW, "p2", 1, 5)],
        "dev": [(ASH, "p3", 1, 7)],
        "test": [(OARS, "p9", 1, 1)],  # of an unknown passage, which prepare leaves out
    },
)

SOURCES = {
    "beir": Sample(
        {"source": "beir"},
        BEIR,
        PASSAGES,
        dict.fromkeys(("train", "dev", "test"), asked(*QUERIES.items())),
        {
            "train": judged(("q1", "p1", 2), ("q3", "p3", 1), ("q3", "p2", 0), ("q1", "p3", -1)),
            "dev": judged(("q2", "p2", 1)),
            "test": judged(("q2", "p2", 1), ("q3", "p3", 1)),
        },
    ),
    "msmarco": Sample(
        {"source": "msmarco"}, MSMARCO, LAMPS, {"train": TRAIN, "test": DEV}, {"train": TRAINED, "test": DEVELOPED}
    ),
    "trec dl": Sample(
        {"source": "msmarco", "test": "trec_dl_2019"},
        MSMARCO,
        LAMPS,
        {"train": TRAIN, "dev": DEV, "test": asked(("30", "what shines"))},
        {"train": TRAINED, "dev": DEVELOPED, "test": judged(("30", "0", 3), ("30", "1", 2), ("30", "2", 0))},
    ),
    "rocketqa": Sample(
        {"source": "msmarco"},
        {
            "para.txt": TREES,
            "para.title.txt": lines("0\tLamps", "1\t-", "3\tFish"),
            "train.query.txt": MSMARCO["queries.train.tsv"],
            "qrels.train.tsv": lines("10\t0", "11\t1", "10\t0"),
            "dev.query.txt": MSMARCO["queries.dev.small.tsv"],
            "qrels.dev.tsv": lines("20\t2", "21\t3"),
        },
        [("0", "Lamps", LAMPS[0][2]), *LAMPS[1:3], ("3", "Fish", LAMPS[3][2])],
        {"train": TRAIN, "test": DEV},
        {"train": TRAINED, "test": DEVELOPED},
    ),
    "dpr": Sample(
        {"source": "dpr", "name": "nq"},
        DPR,
        TRAINS,
        {"train": QUESTIONS, "dev": [("0", "how long", ("eight hours", "8 hours"))], "test": TESTED},
        {"train": POSITIVES},
    ),
    "dpr as its download has it": Sample(
        {"source": "dpr", "name": "trivia"}, LOADED, TRAINS, {"train": QUESTIONS, "test": TESTED}, {"train": POSITIVES}
    ),
    "log": Sample(HALVES, LOG, PASSAGES, *OF_LOG),
    "log of objects": Sample(HALVES, {"corpus.jsonl": CORPUS, "log.jsonl": OBJECTS}, PASSAGES, *OF_LOG),
}
