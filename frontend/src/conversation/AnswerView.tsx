/** An answer: its figures as tables, its words with citations, what it leaves out, and its sources. */

import { Link } from '@tanstack/react-router';
import { CircleHelp } from 'lucide-react';
import type { Source, TypedAnswer } from '../api/types';
import { Notice } from '../components/ui/Notice';
import { tooltip } from '../components/ui/Tooltip';
import { formatDuration, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Markdown } from '../shared/Markdown';
import { answerText, coverageTexts, fallbackText, toReview } from './answerText';
import { FigureTables } from './FigureTables';
import { locationOf, type SourceLocation } from './sourceLocation';
import { sourceLabel, Sources } from './Sources';

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
        aria-label={t('chat.sourceOf', { number, source: sourceLabel(source) })}
        {...tooltip(sourceLabel(source))}
        className="mx-px min-h-6 min-w-6 rounded-md border border-border bg-background px-1 text-xs font-semibold text-link hover:bg-hover"
        onClick={() => onShow?.(locationOf(source))}>
        {number}
      </button>
    );
  };
  const { effort } = answer;
  const uncounted = toReview(answer);
  const coverage = (
    <div className="grid gap-1 empty:hidden">
      {coverageTexts(answer).map((text) => (
        <p key={text} className="text-xs text-muted-foreground">
          {text}
        </p>
      ))}
      {uncounted > 0 && (
        <p className="flex flex-wrap items-center gap-x-2 text-need">
          <CircleHelp size={15} className="shrink-0" aria-hidden="true" />
          {t('answer.toReview', { count: uncounted })}
          <Link to="/documents" search={{ status: 'needs_review' }} className="text-need">
            {t('answer.lookAtThem')}
          </Link>
        </p>
      )}
    </div>
  );
  const figures =
    answer.figures.length === 0 ? null : (
      <FigureTables
        figures={answer.figures}
        documents={[...new Set(sources.map((source) => source.document_id))].slice(0, 20)}
      />
    );
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-3">
      {answer.fallback != null && <Notice kind="unsure">{fallbackText(answer)}</Notice>}
      {figures !== null && coverage}
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
        <>
          {figures}
          <div className={figures === null ? 'text-lg' : undefined}>
            <Markdown text={answerText(answer)} citation={citation} />
          </div>
        </>
      )}
      {answer.kind === 'reply' && <p className="text-muted-foreground">{t('answer.reply')}</p>}
      {answer.fallback?.by_model === false && figures}
      {sources.length > 0 && <Sources sources={sources} onShow={(source) => onShow?.(locationOf(source))} />}
      {figures === null && coverage}
      {effort != null && (
        <p className="text-xs text-muted-foreground">
          {t('chat.searches', { count: effort.searches })} · {t('chat.documentsRead', { count: effort.reads })} ·{' '}
          {formatDuration(effort.seconds * 1000)}
        </p>
      )}
    </div>
  );
}
