// A worker: one WebAssembly program that answers requests in turn.

import { Program } from './host'

/** A message to a worker. */
export type ToWorker =
  | { kind: 'start'; module: WebAssembly.Module }
  | { kind: 'file'; name: string; bytes: Uint8Array<ArrayBuffer> }
  | { kind: 'ask'; id: number; request: string }
  | { kind: 'take'; id: number; names: string[] }

/** A message from a worker. */
export type FromWorker =
  | { kind: 'answer'; id: number; text: string }
  | { kind: 'files'; id: number; files: [string, Uint8Array][] }
  | { kind: 'trap'; id: number; words: string }

let program: Program | undefined
const say = (message: FromWorker): void => postMessage(message)

onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if (data.kind === 'start') {
    program = new Program(data.module)
    return
  }
  if (!program) return
  if (data.kind === 'file') {
    program.put(data.name, data.bytes)
    return
  }
  try {
    if (data.kind === 'ask') {
      say({ kind: 'answer', id: data.id, text: program.answer(data.request) })
    } else {
      const files = data.names.map((name): [string, Uint8Array] => [name, program!.take(name)])
      say({ kind: 'files', id: data.id, files })
    }
  } catch (error) {
    say({ kind: 'trap', id: data.id, words: error instanceof Error ? error.message : String(error) })
  }
}
