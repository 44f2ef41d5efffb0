"""What a finished request leaves for learning: the scene, what was decided, how the goal ended."""

import hashlib

from robot_llm.core.decision import Decision
from robot_llm.core.request import Request

Record = dict[str, object]


def record_of(request: Request, decision: Decision | None, stamp_s: float) -> Record | None:
    """
    Return what the recorder keeps of a finished request; None if its model decided nothing.

    :param decision: the first one that was published, before any revocation; None if only the
        fallback ever went out
    :param stamp_s: wall-clock time, seconds since the epoch
    """
    evidence, standing = request.evidence, request.latch.standing
    if evidence is None or standing is None:
        return None
    said = decision or standing
    return {
        'stamp_s': stamp_s,
        'profile': request.profile.name,
        'scene': request.scene.description,
        'epoch': request.scene.epoch,
        'goal': request.prompt,
        'words': list(said.words),
        'probabilities': [round(p, 6) for p in said.probabilities],
        'confidence': round(said.confidence, 6),
        'word': said.word,
        'source': said.source.name,
        'stands': standing.word,
        'hidden_sha256': hashlib.sha256(evidence.hidden.tobytes()).hexdigest(),
        'finish_reason': request.finish_reason.name if request.finish_reason else '',
    }
