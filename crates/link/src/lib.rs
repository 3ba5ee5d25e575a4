//! Link impairments as sans-IO elements: queue, rate, loss, delay, reordering and more.
