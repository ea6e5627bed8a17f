//! The upper layer of a workspace: everything in which it differs from its base.
