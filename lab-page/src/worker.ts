// A worker: WebAssembly programs that answer requests in turn.
//
// The first program is for the race that the page shows, and the second one for figures in the background. Each holds a
// plan of its own, so the race stays while the other is busy. The second is started when it is first needed.

import { Program } from './host'

/** Which program of a worker is meant. */
export type Side = 'race' | 'figure'

/** A message to a worker. */
export type ToWorker =
  | { kind: 'start'; module: WebAssembly.Module }
  | { kind: 'file'; name: string; bytes: Uint8Array<ArrayBuffer> | undefined }
  | { kind: 'ask'; id: number; side: Side; request: string }
  | { kind: 'take'; id: number; names: string[] }

/** A message from a worker. */
export type FromWorker =
  | { kind: 'answer'; id: number; text: string }
  | { kind: 'files'; id: number; files: [string, Uint8Array][] }
  | { kind: 'trap'; id: number; side: Side; words: string }

let module: WebAssembly.Module | undefined
const programs = new Map<Side, Program>()
const files = new Map<string, Uint8Array<ArrayBuffer>>()
const say = (message: FromWorker): void => postMessage(message)

function program(side: Side): Program {
  const known = programs.get(side)
  if (known) return known
  const started = new Program(module!)
  for (const [name, bytes] of files) started.put(name, bytes)
  programs.set(side, started)
  return started
}

onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if (data.kind === 'start') {
    module = data.module
    program('race')
    return
  }
  if (data.kind === 'file') {
    if (data.bytes) files.set(data.name, data.bytes)
    else files.delete(data.name)
    for (const running of programs.values()) running.put(data.name, data.bytes)
    return
  }
  const side = data.kind === 'ask' ? data.side : 'race'
  try {
    if (data.kind === 'ask') {
      say({ kind: 'answer', id: data.id, text: program(side).answer(data.request) })
    } else {
      say({ kind: 'files', id: data.id, files: data.names.map((name) => [name, program(side).take(name)]) })
    }
  } catch (error) {
    // After a trap, the memory of the program has any content.
    programs.delete(side)
    say({ kind: 'trap', id: data.id, side, words: error instanceof Error ? error.message : String(error) })
  }
}
