/** An answer: its words with citations, what it covers, what it rests on, and whether it was the agent's own. */

import type { Source, Turn, TypedAnswer } from '../api/types';
import { count, visibleText } from '../shared/format';
import { Markdown } from '../shared/Markdown';
import { Notice } from '../shared/Notice';
import styles from './Conversation.module.css';
import { placeOf, type SourceLocation } from './sourceLocation';

interface Props {
  turn: Turn;
  answer: TypedAnswer;
  onShow?: ((place: SourceLocation) => void) | undefined;
}

export function AnswerView({ turn, answer, onShow }: Props) {
  const sources = answer.sources as Source[];
  const citation = (number: number) => {
    const source = sources.find((one) => one.number === number);
    if (source === undefined) return `[${number}]`;
    return (
      <button type="button" className={styles.cite} aria-label={`Source ${number}: ${whereOf(source)}`} title={whereOf(source)} onClick={() => onShow?.(placeOf(source))}>
        {number}
      </button>
    );
  };
  const { effort } = answer;
  return (
    <div className={styles.answer}>
      {answer.fallback != null && <Notice kind="unsure">{answer.fallback.text}</Notice>}
      <Markdown text={turn.answer ?? ''} citation={citation} />
      {sources.length > 0 && (
        <ol className={styles.sources} aria-label="Sources">
          {sources.map((source) => (
            <li key={source.number}>
              <button type="button" onClick={() => onShow?.(placeOf(source))}>
                <b>{source.number}</b>
                <span className="truncate">{whereOf(source)}</span>
                <q className="truncate">{visibleText(source.quote)}</q>
              </button>
            </li>
          ))}
        </ol>
      )}
      {effort != null && (
        <p className="muted">
          {count(effort.searches, 'search', 'searches')} · {count(effort.reads, 'read')} · {effort.seconds.toFixed(1)} s
        </p>
      )}
    </div>
  );
}

function whereOf(source: Source): string {
  return `${visibleText(source.filename)}, page ${source.page}`;
}
