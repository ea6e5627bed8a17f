//! The service and its users. Each test starts a service as root, and runs itself again as an
//! ordinary user, who sends the requests.
#![allow(clippy::disallowed_methods, clippy::print_stdout, missing_docs)]

mod confined;
mod floors;
mod hostile;
mod images;
mod life;
mod limits;
mod scene;
mod silent;
