//! A hostile tenant or user, each file one of their ways: none of them
//! gets what is not theirs, and nobody else notices.

mod apiservice;
mod flood;
mod network;
mod server_requests;
mod user;
