"""The sound decoder that the examples of this group and its neighbours put their fault into."""

CACHED_MODEL = """
    import torch
    from torch import nn
    import torch.nn.functional as F

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.position = nn.Embedding(50, 16), nn.Embedding(32, 16)
            self.qkv, self.head = nn.Linear(16, 48), nn.Linear(16, 50)

        def forward(self, ids, cache=None):
            past = 0 if not cache else cache["k"].size(2)
            T = ids.size(1)
            x = self.embed(ids) + self.position(torch.arange(past, past + T))
            q, k, v = self.qkv(x)[:, None].chunk(3, dim=-1)
            if cache is not None:
                if cache:
                    k, v = torch.cat((cache["k"], k), 2), torch.cat((cache["v"], v), 2)
                cache["k"], cache["v"] = k, v
            keep = torch.ones(T, T + past, dtype=torch.bool).tril(past)
            return self.head(x + F.scaled_dot_product_attention(q, k, v, keep)[:, 0])

    def generate(module, batch, num_tokens):
        cache, ids, made = {}, batch["ids"], []
        for _ in range(num_tokens):
            ids = module(ids, cache)[:, -1:].argmax(-1)
            made.append(ids)
        return torch.cat(made, dim=1)

    def patient():
        torch.manual_seed(0)
        batch = {"ids": torch.randint(1, 50, (3, 12))}
        return {"module": Model(), "batch": batch, "causal": True, "generate": generate}
"""
