"""Work for more than one machine, on Ray: embedding, predicting, the benchmark.

A run is cut into parts that know nothing of each other: some images in, one Parquet file out. A task of Ray reads its
part, embeds it as the local engine does, and writes the file itself; only a receipt goes back. So pixels and embeddings
never pass through the driver, a lost node costs the parts it was working on, and a killed driver goes on with the parts
whose files are not there yet.

Nothing of Ray is imported before it is asked for.
"""
