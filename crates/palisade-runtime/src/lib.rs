//! Where input comes from: files, folders, standard input, a live cluster.
