"""Generated contexts with facts, and questions about them. Does not import torch.

A fifth of the questions ask for a fact that their context does not state. The names are built from
syllables, so that most answers of the held-out questions are new.
"""

import numpy as np

from saccade.data.answering.readers import Answer, Question
from saccade.data.tagging.synthetic import SPAN_GENERATORS
from saccade.seeding import generator

CONTEXTS = 1000
FACTS_PER_CONTEXT = 3
QUESTIONS_PER_CONTEXT = 2
UNANSWERED_SHARE = 0.2  # of the questions
# sentence, kind of the answer, question
FACTS = (
    ("{person} was born in {}.", "location", "Where was the singer born?"),
    ("The train leaves the station at {}.", "time", "When does the train leave?"),
    ("The bridge over the river cost {}.", "amount", "How much did the bridge cost?"),
    ("The old mill burned down on {}.", "date", "On which day did the mill burn down?"),
    ("The school is named after {}.", "person", "Who is the school named after?"),
    ("The market moved to {} last week.", "location", "Where did the market move to?"),
    ("{} paints the walls of the hall.", "person", "Who paints the walls?"),
    ("A ticket for the concert is {}.", "amount", "How much is a ticket for the concert?"),
)


def generate_questions() -> list[Question]:
    """Return questions about generated contexts, the same on every machine."""
    random = generator(0, "questions")
    return [question for number in range(CONTEXTS) for question in _of_one_context(random, number)]


def _of_one_context(random: np.random.Generator, number: int) -> list[Question]:
    order = random.permutation(len(FACTS)).tolist()
    stated, others = order[:FACTS_PER_CONTEXT], order[FACTS_PER_CONTEXT:]
    context, answers = "", {}
    for fact in stated:
        sentence, kind, _ = FACTS[fact]
        sentence = sentence.replace("{person}", SPAN_GENERATORS["person"](random))
        before, _, after = sentence.partition("{}")
        context += f" {before}" if context else before
        answers[fact] = Answer(SPAN_GENERATORS[kind](random), len(context))
        context += answers[fact].text + after
    found = []
    for asked in range(QUESTIONS_PER_CONTEXT):
        fact = stated[asked]
        if random.random() < UNANSWERED_SHARE:
            fact = others[asked]
        given = (answers[fact],) if fact in answers else ()
        found.append(Question(f"{number}-{asked}", FACTS[fact][2], context, given, str(number)))
    return found
