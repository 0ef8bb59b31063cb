import torch

from engram.randomness import generator, isolated, seed_for


def test_seeds_are_pinned_because_stored_results_depend_on_them() -> None:
    assert seed_for(0, "network") == 2347063334748185756
    assert seed_for(3, 1, "order", 7) == 1627990574496987940


def test_every_seed_task_and_purpose_has_numbers_of_its_own() -> None:
    seeds = [seed_for(s, t, p) for s in range(5) for t in range(5) for p in ("order", "step", "grow")]
    assert len(set(seeds)) == len(seeds)
    assert seed_for(1, 23) != seed_for(12, 3)
    assert all(0 <= seed < 2**62 for seed in seeds)


def test_a_generator_repeats_itself_whatever_else_draws() -> None:
    first = torch.randperm(50, generator=generator(1, "order"))
    torch.rand(7)
    assert torch.equal(torch.randperm(50, generator=generator(1, "order")), first)
    assert not torch.equal(torch.randperm(50, generator=generator(2, "order")), first)


def test_isolated_gives_the_default_generator_back_also_after_an_error() -> None:
    before = torch.get_rng_state()
    try:
        with isolated(torch.device("cpu")):
            torch.manual_seed(5)
            torch.rand(3)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert torch.equal(torch.get_rng_state(), before)
