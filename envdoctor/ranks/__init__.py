"""One stack on every rank of a job: the ranks meet before the process group forms, and compare theirs."""
