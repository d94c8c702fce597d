//! What every Covey binary shares: the process around a controller, never the controller itself.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`args`] | clap structs to flatten: log, admin port; every flag has a `COVEY_…` variable |
//! | [`telemetry`] | installs the log subscriber and the panic hook |
//! | [`events`] | publishes Events, each at most once in ten minutes |
//! | [`process`] | what every process begins with |
//! | [`panics`] | work whose panic is its own failure; any other ends the process |
//! | [`lease`] | leader election; [`lease::Leadership::ensure`] fences every write |
//! | [`metrics`] | controller and process metrics |
//! | [`admin`] | the admin port: livez, readyz, metrics, state; and the port for probes alone |
//! | `connections` | an HTTP server that no peer can hold up |
//! | [`shutdown`] | SIGTERM and SIGINT as a value that can be awaited |
//! | [`tls_reload`] | an HTTPS server whose certificate can be swapped while it runs |
//! | [`watch`] | a watch that is kept, and what cannot be decoded left out |
//! | [`workqueue`] | whose turn it is, each key at most once in hand; and when one may be tried again |
//! | [`store`] | a reflector store that is kept, and who is told of its changes |
//!
//! Invariants: no module knows a Covey kind; nothing here
//! panics or ends the process, except [`shutdown`] once its grace period has passed, and [`panics`].

pub mod admin;
pub mod args;
mod connections;
pub mod events;
pub mod lease;
pub mod metrics;
pub mod panics;
pub mod process;
pub mod shutdown;
pub mod store;
pub mod telemetry;
pub mod tls_reload;
pub mod watch;
pub mod workqueue;
