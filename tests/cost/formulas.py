"""The formulas by which budgets were met before costs were a protocol, written out for FLOPs alone: an oracle."""

from itertools import pairwise

import torch

LIMIT = 40.0


def weights(size, name, site):
    """(FLOPs per token [L], FLOPs per pair of tokens)."""
    width = size.heads * size.head_dim
    if name == "paper":
        attention, quadratic, ffn = 8 * size.hidden**2, 4 * size.hidden, 16 * size.hidden**2
    else:
        attention = 4 * size.hidden * width + 4 * size.hidden * size.kv_heads * size.head_dim
        quadratic, ffn = 4 * width, (6 if size.gated else 4) * size.hidden * size.ffn
    networks = torch.ones(size.num_layers, dtype=torch.int64)
    if site == "mid":
        networks[0] -= 1
        networks[-1] += 1
    return attention + ffn * networks, quadratic


class Formulas:
    """FLOPs of B samples: text, visual [B]."""

    def __init__(self, size, name, text, visual, site, first_full):
        self.size, self.text, self.visual, self.first_full = size, text, visual, first_full
        self.linear, self.quadratic = weights(size, name, site)
        self.plain = weights(size, name, "entry")[0]

    def flops(self, retention):
        N = self.text.double()[..., None] + retention.double() * self.visual.double()[..., None]
        return (N * (self.linear + self.quadratic * N)).sum(dim=-1)

    def of_counts(self, counts):
        N = counts + self.text[..., None]
        return (N * (self.linear + self.quadratic * N)).sum(dim=-1)

    def full(self):
        N = (self.visual + self.text)[..., None].expand(-1, self.size.num_layers)
        return (N * (self.plain + self.quadratic * N)).sum(dim=-1)

    def clamped(self, budget):
        counts = self.visual.new_zeros(len(self.visual), self.size.num_layers)
        if self.first_full:
            counts[:, 0] = self.visual
        return torch.maximum(budget, self.of_counts(counts).double() / self.full().clamp_min(1).double())

    def limit(self, budget):
        whole = self.full().clamp_min(1).double()
        limit = (budget * whole).floor().long()
        limit = torch.where((limit + 1).double() / whole <= budget, limit + 1, limit)
        return torch.where(limit.double() / whole <= budget, limit, limit - 1)

    def solve(self, kernel, params, budget, gamma):
        place, most = kernel.budget_parameter, budget * self.full()

        def moved(value):
            return torch.cat([params[:, :place], value[:, None], params[:, place + 1 :]], dim=-1)

        ends = (torch.full((len(params),), end, dtype=torch.float64) for end in (-LIMIT, LIMIT))
        found = halved(lambda v: self.flops(kernel(moved(v), self.size.num_layers, gamma=gamma)) <= most, *ends, 45)
        return moved(found)

    def meet(self, curve, budget):
        most = budget * self.full()

        def clamped(t):
            cut = torch.minimum(torch.maximum(curve, t[:, None] - 1.0), t[:, None])
            return torch.cat([torch.ones_like(cut[:, :1]), cut[:, 1:]], dim=-1) if self.first_full else cut

        one = torch.ones(len(curve), dtype=torch.float64)
        lift = self.flops(clamped(one)) <= most
        low, high = torch.where(lift, one, 0.0), torch.where(lift, 2.0, one)
        return clamped(halved(lambda t: self.flops(clamped(t)) <= most, low, high, 45))

    def counts(self, kernel, params, budget, gamma=None, *, fill=True):
        """Whole tokens [B, L] of a kernel's parameters [B, P] at budgets [B]."""
        budget = self.clamped(budget)
        solved = self.solve(kernel, params, budget, gamma)
        exact = self.meet(kernel(solved, self.size.num_layers, gamma=gamma), budget) * self.visual.double()[:, None]
        limit = self.limit(budget)

        def rounded(shift):
            counts = torch.minimum((exact + shift[:, None]).floor().long().clamp_min(0), self.visual[:, None])
            if self.first_full:
                counts[:, 0] = self.visual
            return counts

        ends = (torch.full((len(params),), end, dtype=torch.float64) for end in (-1.0, 1.0))
        counts = rounded(halved(lambda shift: self.of_counts(rounded(shift)) <= limit, *ends, 30))
        counts = self.joined(counts, limit) if fill else counts
        for most in (1, 10**9) if fill else ():
            counts = self.filled(counts, limit, most)
        return counts

    def spent(self, row, b):
        N = [int(self.text[b]) + count for count in row]
        return sum(n * (a + self.quadratic * n) for n, a in zip(N, self.linear.tolist(), strict=True))

    def joined(self, counts, limit):
        """Plateaus of which the last drop saves less than a hundredth of all FLOPs, from the last one on, as one."""
        rows = []
        for b, row in enumerate(counts.tolist()):
            runs = plateaus(row)
            for k in range(len(runs) - 1, 0, -1):
                (start, here), (_, stop) = runs[k - 1], runs[k]
                level, low = row[start], row[here]
                kept = [*row[:here], *[level] * (stop - here), *row[stop:]]
                saves = self.spent(kept, b) - self.spent(row, b)
                if level == int(self.visual[b]) or saves >= 0.01 * int(self.full()[b]):
                    continue
                tried = ([*row[:start], *[c] * (stop - start), *row[stop:]] for c in range(level, low - 1, -1))
                row = next(each for each in tried if self.spent(each, b) <= int(limit[b]))  # noqa: PLW2901
                runs[k - 1] = (start, stop)
            rows.append(row)
        return torch.tensor(rows)

    def filled(self, counts, limit, most):
        """One token after the other through each plateau, front to back."""
        rows = []
        for b, given in enumerate(counts.tolist()):
            row = list(given)
            for start, stop in plateaus(given):
                before = int(self.visual[b]) if start == 0 else row[start - 1]
                for _ in range(most):
                    more = [*row[:start], *(count + 1 for count in row[start:stop]), *row[stop:]]
                    if more[start] > before or self.spent(more, b) > int(limit[b]):
                        break
                    row = more
            rows.append(row)
        return torch.tensor(rows)


def plateaus(row):
    """The runs of layers that process the same number of tokens, as (first, behind the last)."""
    edges = [0, *(i for i in range(1, len(row)) if row[i] != row[i - 1]), len(row)]
    return list(pairwise(edges))


def halved(fits, low, high, bits):
    """The largest x in [low, high] that fits, by halving; low, high [B]."""
    for _ in range(bits):
        middle = low + (high - low) * 0.5
        fitting = fits(middle)
        low, high = torch.where(fitting, middle, low), torch.where(fitting, high, middle)
    return torch.where(fits(high), high, low)
