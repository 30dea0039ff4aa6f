/** An answer with its citations and sources. */

import type { Source, TypedAnswer } from '../api/types';
import { formatDuration, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Markdown } from '../shared/Markdown';
import { Notice } from '../components/ui/Notice';
import styles from './Conversation.module.css';
import { answerText, coverageTexts, fallbackText } from './answerText';
import { locationOf, type SourceLocation } from './sourceLocation';

interface Props {
  answer: TypedAnswer;
  onShow?: ((place: SourceLocation) => void) | undefined;
}

export function AnswerView({ answer, onShow }: Props) {
  const sources = answer.sources as Source[];
  const citation = (number: number) => {
    const source = sources.find((one) => one.number === number);
    if (source === undefined) return `[${number}]`;
    return (
      <button
        type="button"
        className={styles.cite}
        aria-label={t('chat.sourceOf', { number, source: sourceLabel(source) })}
        title={sourceLabel(source)}
        onClick={() => onShow?.(locationOf(source))}>
        {number}
      </button>
    );
  };
  const { effort } = answer;
  return (
    <div className={styles.answer}>
      {answer.fallback != null && <Notice kind="unsure">{fallbackText(answer)}</Notice>}
      {answer.fallback?.by_model === false ? (
        <>
          {answer.fallback.computed?.map((computation) => (
            <p key={computation}>{t('answer.computed', { computation: visibleText(computation) })}</p>
          ))}
          {sources.map((source) => (
            <p key={source.number}>
              <q>{visibleText(source.quote)}</q> {citation(source.number)}
            </p>
          ))}
        </>
      ) : (
        <Markdown text={answerText(answer)} citation={citation} />
      )}
      {answer.kind === 'reply' && <p className="muted">{t('answer.reply')}</p>}
      {coverageTexts(answer).map((text) => (
        <p key={text} className="muted">
          {text}
        </p>
      ))}
      {sources.length > 0 && (
        <ol className={styles.sources} aria-label={t('chat.sources')}>
          {sources.map((source) => (
            <li key={source.number}>
              <button type="button" onClick={() => onShow?.(locationOf(source))}>
                <b>{source.number}</b>
                <span className="truncate">{sourceLabel(source)}</span>
                <q className="truncate">{visibleText(source.quote)}</q>
              </button>
            </li>
          ))}
        </ol>
      )}
      {effort != null && (
        <p className="muted">
          {t('chat.searches', { count: effort.searches })} · {t('chat.documentsRead', { count: effort.reads })} ·{' '}
          {formatDuration(effort.seconds * 1000)}
        </p>
      )}
    </div>
  );
}

function sourceLabel(source: Source): string {
  return t('chat.sourcePage', { name: visibleText(source.filename), page: source.page });
}
