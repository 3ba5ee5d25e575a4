# Prints the data packets that one flow sends while certain packets of the data direction are dropped.
#
#   ns ladder.tcl AGENT DROPPED SECONDS
#
# AGENT is Reno, Newreno or Sack1. DROPPED lists the data packets that are dropped, by their number on the link, as in 4/9; - is
# none. The round trip is 90 ms, and the rate so high that packets leave at once. Segments have 1000 bytes, the window 40 of
# them, and all else is as in flows.tcl. Each line has the milliseconds since the first data packet and a segment's number.

set agent [lindex $argv 0]
set dropped [split [lindex $argv 1] /]
set seconds [lindex $argv 2]

Agent/TCP set packetSize_ 1000
Agent/TCP set window_ 40
Agent/TCP set windowInit_ 2
Agent/TCP set minrto_ 1
Agent/TCP set tcpTick_ 0.001
Agent/TCP set rtxcur_init_ 3.0
Agent/TCP set overhead_ 0

set ns [new Simulator]
set a [$ns node]
set b [$ns node]
$ns duplex-link $a $b 100Gb 45ms DropTail
$ns queue-limit $a $b 10000
$ns queue-limit $b $a 10000
if {$dropped != "-"} {
    set model [new ErrorModel/List]
    # The first packet of the link, number 0, is the SYN.
    $model droplist $dropped
    $model drop-target [new Agent/Null]
    $ns lossmodel $model $a $b
}
if {$agent == "Sack1"} {
    set tcp [new Agent/TCP/Sack1]
    set sink [new Agent/TCPSink/Sack1/DelAck]
} else {
    set tcp [new Agent/TCP/$agent]
    set sink [new Agent/TCPSink/DelAck]
}
$sink set interval_ 100ms
$ns attach-agent $a $tcp
$ns attach-agent $b $sink
$ns connect $tcp $sink
set ftp [new Application/FTP]
$ftp attach-agent $tcp
set out [open "|cat" w]
$ns trace-queue $a $b $out
$ns at 0.0 "$ftp start"
$ns at $seconds "exit 0"
$ns run
