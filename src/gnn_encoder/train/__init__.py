"""Training the dual-encoder and M_ce: losses, gradient cache, the loop that resumes, dev scores and the teacher."""
