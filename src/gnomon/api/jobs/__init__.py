"""What a training needs of its task: the text prepared, the model built, the whole looked at."""

from gnomon.api.jobs.job import Job
from gnomon.api.jobs.tasks import job_of

__all__ = ["Job", "job_of"]
