import torch
from tests.methods.test_gradient import lesson, method, weights

from engram.lesson import Lesson, Watch
from engram.methods.joint import JointMethod
from engram.recipes import recipe


def learnt(*lessons: Lesson) -> JointMethod:
    subject = JointMethod(lambda _: method(), 3)
    for each in lessons:
        subject.learn(each, Watch())
    return subject


def test_it_equals_training_afresh_on_the_union() -> None:
    first, second = lesson(0), lesson(1, 21)
    subject = learnt(first, second)
    union = method()
    union.learn(Lesson(0, torch.cat([first.x, second.x]), torch.cat([first.y, second.y]), 3), Watch())
    assert all(map(torch.equal, weights(subject._inner), weights(union)))
    assert torch.equal(subject.scores(first.x), union.scores(first.x))
    assert torch.equal(subject.features(first.x), union.features(first.x))


def test_it_keeps_every_sample_and_says_so() -> None:
    subject = learnt(lesson(0), lesson(1, 21))
    state = subject.state()
    assert state.meta["kept"] == 2
    assert len(state.tensors["kept0.x"]) + len(state.tensors["kept1.x"]) == 51
    assert recipe("joint").keeps_data
    assert "stores every sample" in recipe("joint").about
    assert not recipe("owm").keeps_data


def test_a_restored_state_goes_on_with_the_samples_kept() -> None:
    whole = learnt(lesson(0), lesson(1, 21))
    twin = JointMethod(lambda _: method(), 3)
    twin.restore(learnt(lesson(0)).state())
    twin.learn(lesson(1, 21), Watch())
    assert torch.equal(twin.scores(lesson().x), whole.scores(lesson().x))


def test_a_task_that_fails_leaves_nothing_in_the_store() -> None:
    class Stop(Watch):
        def score_epoch(self) -> float | None:
            raise KeyboardInterrupt

    subject = learnt(lesson(0))
    try:
        subject.learn(lesson(1), Stop())
    except KeyboardInterrupt:
        assert subject.state().meta["kept"] == 1
    else:
        raise AssertionError
