"""Work for more than one machine, on Ray: embedding, predicting, the benchmark.

A run is divided into independent parts: some images in, one Parquet file out. A Ray task reads its part, embeds it as
the local engine does, and writes the file itself; only a receipt goes back. So pixels and embeddings never pass through
the driver, a lost node costs only the parts it was working on, and a run that was killed continues with the parts that
have no file yet.

Ray is imported only when it is used.
"""
