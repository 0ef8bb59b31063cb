"""SeqGAN (Yu et al. 2017): a generator of texts that learns by likelihood first, then from a critic's judgement.

A text is a row of numbers of words, 0 after its end. A critic only judges whole texts, so that each word is rewarded
with what the critic says, on average, of texts that go on from it: the generator itself finishes them (roll-outs).
Earlier texts it learns from its former self, as in deep generative replay (Shin et al. 2017): no classes are told.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.generators.wgan_gp import curve_of
from engram.lesson import State
from engram.settings import InputReplaySettings

EMBEDDING = 32
WINDOW = 3

Draw = Callable[[int], Tensor]


class TextGenerator(nn.Module):
    """One layer of an LSTM, which says of each next word how probable it is; 0 begins and ends a text."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words + 1, EMBEDDING)
        self.lstm = nn.LSTM(EMBEDDING, width, batch_first=True)
        self.leave = nn.Linear(width, words + 1)

    def log_probabilities(self, texts: Tensor) -> Tensor:
        """Of each number in its place, given those before it; 0 for what follows a text's end."""
        before = F.pad(texts[:, :-1], (1, 0))
        hidden, _ = self.lstm(self.embedding(before))
        every = self.leave(hidden).float().log_softmax(2)
        return every.gather(2, texts[:, :, None])[:, :, 0] * spoken(texts)

    @torch.no_grad()
    def complete(self, begun: Tensor, chance: Tensor) -> Tensor:
        """Texts that go on from these beginnings to the length of `chance`: a number from 0 to 1 for each word."""
        place, length = begun.shape[1], chance.shape[1]
        texts = F.pad(begun, (0, length - place))
        hidden, memory = self.lstm(self.embedding(F.pad(begun, (1, 0))))
        ended = (begun == 0).any(1)
        for index in range(place, length):
            sums = self.leave(hidden[:, -1]).float().softmax(1).cumsum(1)
            drawn = torch.searchsorted(sums, chance[:, index : index + 1] * sums[:, -1:])[:, 0]
            drawn = drawn.clamp_max(sums.shape[1] - 1).masked_fill(ended, 0)
            texts[:, index], ended = drawn, ended | (drawn == 0)
            hidden, memory = self.lstm(self.embedding(drawn[:, None]), memory)
        return texts


class TextCritic(nn.Module):
    """One convolution and the maximum over a text's places: the log-odds that the text is real."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words + 1, EMBEDDING, padding_idx=0)
        self.convolution = nn.Conv1d(EMBEDDING, width, WINDOW, padding=WINDOW - 1)
        self.leave = nn.Linear(width, 1)

    def forward(self, texts: Tensor) -> Tensor:
        found = self.convolution(self.embedding(texts).transpose(1, 2)).amax(2).relu()
        return self.leave(found)[:, 0]


def spoken(texts: Tensor) -> Tensor:
    """Which places count: the words, and the first 0 after them."""
    return F.pad((texts[:, :-1] != 0).cumprod(1), (1, 0), value=1)


def likelihood_loss(generator: TextGenerator, texts: Tensor) -> Tensor:
    """The mean negative log-likelihood of a word, a text's end included."""
    return -generator.log_probabilities(texts).sum() / spoken(texts).sum()


def rewards(generator: TextGenerator, critic: TextCritic, texts: Tensor, rollouts: int) -> Tensor:
    """For each place, what the critic expects of texts that begin like this, up to and with that place."""
    found = torch.empty(texts.shape, device=texts.device)
    with torch.no_grad():
        for place in range(1, texts.shape[1]):
            begun = texts[:, :place].repeat(rollouts, 1)
            whole = generator.complete(begun, torch.rand(len(begun), texts.shape[1], device=texts.device))
            found[:, place - 1] = critic(whole).float().sigmoid().view(rollouts, -1).mean(0)
        found[:, -1] = critic(texts).float().sigmoid()
    return found


def policy_loss(generator: TextGenerator, texts: Tensor, reward: Tensor) -> Tensor:
    """Its gradient is, on average, that of minus the expected reward, where each word has its own."""
    return -(generator.log_probabilities(texts) * reward).sum(1).mean()


class TextGAN:
    """Learns the texts of task after task; those of earlier tasks it learns from its former self."""

    def __init__(self, settings: InputReplaySettings, words: int, device: torch.device, low_precision: bool) -> None:
        """It writes with the numbers from 1 to `words`."""
        self.settings, self.device, self.low_precision = settings, device, low_precision
        self.shape = (settings.text_length,)
        self.words = words
        self.generator = TextGenerator(words, settings.text_width).to(device)
        self.critic = TextCritic(words, settings.text_width).to(device)
        self.seen: list[int] = []

    def learn(
        self, samples: Tensor, columns: Tensor, width: int, stepped: Callable[[int, int], None]
    ) -> dict[str, list[float]]:
        """Add these texts; earlier classes' share is theirs of all classes. Returns the curves of the training."""
        texts = self._inwards(samples)
        new = set(columns.unique().tolist())
        share = len(set(self.seen) - new) / len({*self.seen, *new})
        former = copy.deepcopy(self.generator)
        self.seen = sorted({*self.seen, *new})

        def real(size: int) -> Tensor:
            fresh = texts[torch.randint(len(texts), (size,), device=self.device)]
            old = round(size * share)
            return torch.cat([fresh[old:], self._write(former, torch.rand(old, texts.shape[1]))]) if old else fresh

        log: dict[str, list[Tensor]] = {}
        self._pretrain(real, log, stepped)
        self._play(real, log, stepped)
        return {name: curve_of(torch.stack(values)) for name, values in log.items()}

    def sample(self, columns: Tensor, random: torch.Generator) -> Tensor:
        """As many texts as columns, of whatever classes: nobody has told it of them."""
        return self._write(self.generator, torch.rand(len(columns), self.settings.text_length, generator=random))

    def state(self) -> State:
        state = State(meta={"seen": self.seen})
        state.put("generator", self.generator.state_dict())
        state.put("critic", self.critic.state_dict())
        return state

    def restore(self, state: State) -> None:
        self.seen = list(state.meta["seen"])
        self.generator.load_state_dict(state.take("generator"))
        self.critic.load_state_dict(state.take("critic"))

    def _pretrain(self, real: Draw, log: dict[str, list[Tensor]], stepped: Callable[[int, int], None]) -> None:
        """By maximum likelihood, and the critic on what that generator writes."""
        size, steps = self.settings.generator_batch, self.settings.pretraining_steps
        learn = self._stepper(self.generator)
        for step in range(steps):
            loss = self._cast(lambda: likelihood_loss(self.generator, real(size)))
            learn(loss)
            log.setdefault("negative_log_likelihood", []).append(loss.detach())
            stepped(step + 1, steps + self.settings.adversarial_steps)
        judge = self._stepper(self.critic)
        for _ in range(self.settings.critic_steps * self.settings.adversarial_steps):
            judge(self._critic_loss(real(size)))

    def _play(self, real: Draw, log: dict[str, list[Tensor]], stepped: Callable[[int, int], None]) -> None:
        """One against the other."""
        settings = self.settings
        learn, judge = self._stepper(self.generator), self._stepper(self.critic)
        for step in range(settings.adversarial_steps):
            texts = self._write(self.generator, torch.rand(settings.generator_batch, settings.text_length))
            reward = self._cast(lambda texts=texts: rewards(self.generator, self.critic, texts, settings.rollouts))
            learn(self._cast(lambda texts=texts, reward=reward: policy_loss(self.generator, texts, reward)))
            log.setdefault("reward", []).append(reward[:, -1].mean())
            for _ in range(settings.critic_steps):
                loss = self._critic_loss(real(settings.generator_batch))
                judge(loss)
                log.setdefault("critic_loss", []).append(loss.detach())
            stepped(settings.pretraining_steps + step + 1, settings.pretraining_steps + settings.adversarial_steps)

    def _critic_loss(self, real: Tensor) -> Tensor:
        fake = self._write(self.generator, torch.rand(len(real), real.shape[1]))
        told = self._cast(lambda: self.critic(torch.cat([real, fake]))).float()
        answers = torch.cat([torch.ones(len(real)), torch.zeros(len(fake))]).to(self.device)
        return F.binary_cross_entropy_with_logits(told, answers)

    def _inwards(self, samples: Tensor) -> Tensor:
        """Without words that it does not have, and no longer than it writes; at least one text."""
        known = (samples > 0) & (samples <= self.words)
        order = (~known).to(torch.int8).sort(dim=1, stable=True).indices  # what it does not have goes behind the rest
        texts = samples.gather(1, order).masked_fill(~known.gather(1, order), 0)
        texts = F.pad(texts, (0, self.settings.text_length))[:, : self.settings.text_length]
        return texts[texts[:, 0] > 0] if bool(texts.any()) else texts[:1]

    def _write(self, generator: TextGenerator, chance: Tensor) -> Tensor:
        begun = torch.empty(len(chance), 0, dtype=torch.long, device=self.device)
        return self._cast(lambda: generator.complete(begun, chance.to(self.device)))

    def _cast(self, function: Callable[[], Tensor]) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.low_precision):
            return function()

    def _stepper(self, module: nn.Module) -> Callable[[Tensor], None]:
        weights: Any = list(module.parameters())
        optimizer = torch.optim.Adam(weights, self.settings.text_rate)

        def step(loss: Tensor) -> None:
            optimizer.zero_grad()
            loss.backward(inputs=weights)
            optimizer.step()

        return step
