//! The record of a workspace: how its files are provided, and where they are.
//!
//! `<common directory>/sapwood/workspaces/<name>/record` is a file in Git's configuration format
//! with one section, `workspace`. It is replaced atomically.
