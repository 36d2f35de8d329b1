"""Dense covariances of everything, as a textbook would write them: the oracle of the acquisition's tests."""

import numpy as np


class DenseGaussian:
    """Outputs y_i = B_i z + noise of several (candidate, level) pairs as one Gaussian with its full covariance.

    ``mean`` is ``(S, n, channels, *grid)`` or a list of such, one per level; blocks are named ``(candidate, level)``.
    """

    def __init__(self, means, log_vars):
        self.blocks, self.noise = {}, {}
        for level, (mean, log_var) in enumerate(zip(means, log_vars, strict=True)):
            samples = len(mean)
            for i in range(mean.shape[1]):
                flat = mean[:, i].reshape(samples, -1)
                self.blocks[i, level] = (flat - flat.mean(0)).T / np.sqrt(samples - 1)
                self.noise[i, level] = np.exp(log_var[:, i]).mean()

    def covariance(self, *copies):
        """Of a list of outputs; one that is named twice is two outputs with noise of their own."""
        b = np.concatenate([self.blocks[name] for name in copies])
        noise = np.concatenate([np.full(len(self.blocks[name]), self.noise[name]) for name in copies])
        return b @ b.T + np.diag(noise)

    def conditional(self, outputs, given):
        """Schur complement: covariance of some outputs once others are known."""
        if not given:
            return self.covariance(*outputs)
        joint = self.covariance(*outputs, *given)
        d = sum(len(self.blocks[name]) for name in outputs)
        return joint[:d, :d] - joint[:d, d:] @ np.linalg.solve(joint[d:, d:], joint[d:, :d])

    def entropy(self, *outputs, given=()):
        covariance = self.conditional(outputs, list(given))
        return 0.5 * (len(covariance) * np.log(2 * np.pi * np.e) + np.linalg.slogdet(covariance)[1])

    def information(self, one, two, given=()):
        return self.entropy(one, given=given) + self.entropy(two, given=given) - self.entropy(one, two, given=given)

    def variance(self, output, given=()):
        return np.trace(self.conditional([output], list(given))) / len(self.blocks[output])


def random_predictions(samples, n, shapes=((1, 3), (2, 4)), seed=0, spread=1.0):
    """Means and log-variances of n candidates, a level for each shape, correlated between candidates and levels."""
    rng = np.random.default_rng(seed)
    means = [5 + spread * rng.standard_normal((samples, n, *shape)) for shape in shapes]
    common = spread * rng.standard_normal(samples)
    means = [mean + common.reshape(-1, *[1] * (mean.ndim - 1)) for mean in means]
    return means, [rng.normal(-0.5, 0.4, (samples, n)) for _ in shapes]
